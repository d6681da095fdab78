package carillon

import (
	"slices"
	"strings"
)

// patchField is a field of a job that a patch may name.
type patchField struct {
	name  string
	apply func(to, from *Job)
}

// patchFields are in the order in which docs/concepts.md has them.
var patchFields = []patchField{
	{"schedule", func(to, from *Job) { to.Schedule = from.Schedule }},
	{"time_zone", func(to, from *Job) { to.TimeZone = from.TimeZone }},
	{"dst", func(to, from *Job) { to.DST = from.DST }},
	{"due_time", func(to, from *Job) { to.Due = from.Due }},
	{"repeats", func(to, from *Job) { to.Repeats = from.Repeats }},
	{"ttl", func(to, from *Job) { to.TTL = from.TTL }},
	{"jitter", func(to, from *Job) { to.Jitter = from.Jitter }},
	{"data", patchData},
	{"content_type", func(to, from *Job) { to.Data.ContentType = from.Data.ContentType }},
	{"metadata", func(to, from *Job) { to.Metadata = from.Metadata }},
	{"labels", func(to, from *Job) { to.Labels = from.Labels }},
	{"target", func(to, from *Job) { to.Target = from.Target }},
	{"failure_policy", func(to, from *Job) { to.FailurePolicy = from.FailurePolicy }},
	{"timeout", func(to, from *Job) { to.Timeout = from.Timeout }},
	{"lease", func(to, from *Job) { to.Lease = from.Lease }},
	{"overlap", func(to, from *Job) { to.Overlap = from.Overlap }},
	{"misfire", func(to, from *Job) { to.Misfire = from.Misfire }},
	{"catch_up_limit", func(to, from *Job) { to.CatchUpLimit = from.CatchUpLimit }},
	{"catch_up_window", func(to, from *Job) { to.CatchUpWindow = from.CatchUpWindow }},
	{"priority", func(to, from *Job) { to.Priority = from.Priority }},
	{"concurrency_key", func(to, from *Job) { to.ConcurrencyKey = from.ConcurrencyKey }},
	{"depends_on", func(to, from *Job) { to.DependsOn = from.DependsOn }},
	{"paused", func(to, from *Job) { to.Paused = from.Paused }},
	{"note", func(to, from *Job) { to.Note = from.Note }},
	{"history", func(to, from *Job) { to.History = from.History }},
}

// patchData replaces the bytes, and the content type if the new data has one; "content_type" alone replaces
// only that.
func patchData(to, from *Job) {
	contentType := to.Data.ContentType
	to.Data = from.Data
	if from.Data.ContentType == "" {
		to.Data.ContentType = contentType
	}
}

// PatchFields returns the fields that a patch may name.
func PatchFields() []string {
	names := make([]string, len(patchFields))
	for i, f := range patchFields {
		names[i] = f.name
	}
	return names
}

// topLevel returns the field of a job that a path leads into.
func topLevel(path string) string {
	field, _, _ := strings.Cut(path, ".")
	return field
}

// Apply returns old with the named fields replaced as a whole: a field that the patch names but does not set
// gets its default. Of policies a patch may name single fields, see [PatchParts]; the rest stays. The caller
// validates the result. It shares maps and slices with old and the patch.
//
// A patch that removes the schedule must set a due time. Otherwise the job would run at once, for the last
// time.
func (p Patch) Apply(old Job) (Job, error) {
	recurring := old.Recurring()
	for _, name := range p.Fields {
		if isPart(name) {
			continue
		}
		i := slices.IndexFunc(patchFields, func(f patchField) bool { return f.name == name })
		if i < 0 {
			return Job{}, unpatchable(name)
		}
		patchFields[i].apply(&old, &p.Job)
	}
	if err := p.applyParts(&old); err != nil {
		return Job{}, err
	}
	if recurring && !old.Recurring() && !(p.namesPart("due_time") && !p.Job.Due.IsZero()) {
		return Job{}, Errorf(InvalidArgument, "schedule", "without it the job would run at once, and be gone; give due_time in the same "+
			"patch to have it run once more, or pause or delete it")
	}
	return old, nil
}

func unpatchable(name string) error {
	switch name {
	case "namespace", "name":
		return Errorf(InvalidArgument, name, "it says which job; to rename a job put a new one and delete the old one")
	case "status":
		return Errorf(InvalidArgument, name, "it is set by the server")
	}
	field := strings.ToValidUTF8(clip(name), "\uFFFD")
	return Errorf(InvalidArgument, field, "a job has no such field to patch; use some of %s", strings.Join(PatchFields(), ", "))
}
