package carillon

import (
	"slices"
	"strings"
)

// Effect is what changing a field of a job does to its unfinished runs and its coming times.
type Effect uint8

// The effects. Each includes those before it, except the first.
const (
	// EffectNone: the attempt in force goes on, and no time changes.
	EffectNone Effect = iota + 1
	// EffectFence: unfinished runs go on under their ids with the new content; an attempt in force ends in
	// favour of the next.
	EffectFence
	// EffectNext: the next time is computed again. What was counted so far stays: the phase, the end of life,
	// the repeats.
	EffectNext
	// EffectTimes: the times are counted from the change on, as after a put.
	EffectTimes
)

// patchField is a field of a job that a patch may name.
type patchField struct {
	name   string
	effect Effect
	apply  func(to, from *Job)
}

// patchFields are in the order in which docs/concepts.md has them.
var patchFields = []patchField{
	{"schedule", EffectTimes, func(to, from *Job) { to.Schedule = from.Schedule }},
	{"time_zone", EffectTimes, func(to, from *Job) { to.TimeZone = from.TimeZone }},
	{"dst", EffectNext, func(to, from *Job) { to.DST = from.DST }},
	{"due_time", EffectTimes, func(to, from *Job) { to.Due = from.Due }},
	{"repeats", EffectNext, func(to, from *Job) { to.Repeats = from.Repeats }},
	{"ttl", EffectTimes, func(to, from *Job) { to.TTL = from.TTL }},
	{"jitter", EffectFence, func(to, from *Job) { to.Jitter = from.Jitter }},
	{"data", EffectFence, patchData},
	{"content_type", EffectFence, func(to, from *Job) { to.Data.ContentType = from.Data.ContentType }},
	{"metadata", EffectFence, func(to, from *Job) { to.Metadata = from.Metadata }},
	{"labels", EffectNone, func(to, from *Job) { to.Labels = from.Labels }},
	{"target", EffectFence, func(to, from *Job) { to.Target = from.Target }},
	{"failure_policy", EffectFence, func(to, from *Job) { to.FailurePolicy = from.FailurePolicy }},
	{"timeout", EffectFence, func(to, from *Job) { to.Timeout = from.Timeout }},
	{"lease", EffectFence, func(to, from *Job) { to.Lease = from.Lease }},
	{"overlap", EffectFence, func(to, from *Job) { to.Overlap = from.Overlap }},
	{"misfire", EffectFence, func(to, from *Job) { to.Misfire = from.Misfire }},
	{"catch_up_limit", EffectFence, func(to, from *Job) { to.CatchUpLimit = from.CatchUpLimit }},
	{"catch_up_window", EffectFence, func(to, from *Job) { to.CatchUpWindow = from.CatchUpWindow }},
	{"priority", EffectNone, func(to, from *Job) { to.Priority = from.Priority }},
	{"concurrency_key", EffectFence, func(to, from *Job) { to.ConcurrencyKey = from.ConcurrencyKey }},
	{"depends_on", EffectNone, func(to, from *Job) { to.DependsOn = from.DependsOn }},
	{"paused", EffectNone, func(to, from *Job) { to.Paused = from.Paused }},
	{"note", EffectNone, func(to, from *Job) { to.Note = from.Note }},
	{"history", EffectNone, func(to, from *Job) { to.History = from.History }},
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

// EffectOf returns the effect of changing a field, or a part of it; 0 if a patch cannot name it.
func EffectOf(field string) Effect {
	if isPart(field) {
		field = topLevel(field)
	}
	for i := range patchFields {
		if patchFields[i].name == field {
			return patchFields[i].effect
		}
	}
	return 0
}

// Names reports whether the patch names a field with the effect, whether or not it changes the field.
func (p Patch) Names(effect Effect) bool {
	return slices.ContainsFunc(p.Fields, func(name string) bool { return EffectOf(name) == effect })
}

// Without returns the job without the fields whose changes have at most this effect.
func (j Job) Without(most Effect) Job {
	var none Job
	for i := range patchFields {
		if patchFields[i].effect <= most {
			patchFields[i].apply(&j, &none)
		}
	}
	return j
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
