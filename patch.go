package carillon

import (
	"slices"
	"strings"
)

// patchField is what a patch may name: a field of a job, or by its path one within a policy, whose rest
// stays.
type patchField struct {
	path  string
	form  PolicyKind // for failure policies, the form that the field belongs to; PolicyDefault: any
	apply func(to, from *Job)
}

// patchFields are in the order in which they are applied: fields in that of docs/concepts.md, then parts of
// policies, a form before the fields that all forms have.
var patchFields = []patchField{
	whole("schedule", func(to, from *Job) { to.Schedule = from.Schedule }),
	whole("time_zone", func(to, from *Job) { to.TimeZone = from.TimeZone }),
	whole("dst", func(to, from *Job) { to.Calendars.DST = from.Calendars.DST }),
	whole("except", func(to, from *Job) { to.Calendars.Except = from.Calendars.Except }),
	whole("only", func(to, from *Job) { to.Calendars.Only = from.Calendars.Only }),
	whole("due_time", func(to, from *Job) { to.Due = from.Due }),
	whole("repeats", func(to, from *Job) { to.Repeats = from.Repeats }),
	whole("ttl", func(to, from *Job) { to.TTL = from.TTL }),
	whole("jitter", func(to, from *Job) { to.Jitter = from.Jitter }),
	whole("data", patchData),
	whole("payload", patchData),
	whole("content_type", func(to, from *Job) { to.Data.ContentType = from.Data.ContentType }),
	whole("metadata", func(to, from *Job) { to.Metadata = from.Metadata }),
	whole("labels", func(to, from *Job) { to.Labels = from.Labels }),
	whole("target", func(to, from *Job) { to.Target = from.Target }),
	whole("failure_policy", func(to, from *Job) { to.FailurePolicy = from.FailurePolicy }),
	whole("timeout", func(to, from *Job) { to.Timeout = from.Timeout }),
	whole("lease", func(to, from *Job) { to.Lease = from.Lease }),
	whole("overlap", func(to, from *Job) { to.Overlap = from.Overlap }),
	whole("misfire", func(to, from *Job) { to.Misfire.Rule = from.Misfire.Rule }),
	whole("catch_up_limit", func(to, from *Job) { to.Misfire.Limit = from.Misfire.Limit }),
	whole("catch_up_window", func(to, from *Job) { to.Misfire.Window = from.Misfire.Window }),
	whole("priority", func(to, from *Job) { to.Priority = from.Priority }),
	whole("concurrency_key", func(to, from *Job) { to.ConcurrencyKey = from.ConcurrencyKey }),
	whole("depends_on", func(to, from *Job) { to.DependsOn = from.DependsOn }),
	whole("paused", func(to, from *Job) { to.Paused = from.Paused }),
	whole("note", func(to, from *Job) { to.Note = from.Note }),
	whole("history", func(to, from *Job) { to.History = from.History }),
	formPart(PolicyDrop),
	formPart(PolicyConstant),
	policyPart(PolicyConstant, "interval", func(to, from *FailurePolicy) { to.Interval = from.Interval }),
	policyPart(PolicyConstant, "max_retries", patchRetries),
	formPart(PolicySchedule),
	policyPart(PolicySchedule, "cron", func(to, from *FailurePolicy) { to.Schedule = from.Schedule }),
	policyPart(PolicySchedule, "max_retries", patchRetries),
	formPart(PolicyExponential),
	policyPart(PolicyExponential, "initial", func(to, from *FailurePolicy) { to.Initial = from.Initial }),
	policyPart(PolicyExponential, "factor", func(to, from *FailurePolicy) { to.Factor = from.Factor }),
	policyPart(PolicyExponential, "max", func(to, from *FailurePolicy) { to.Max = from.Max }),
	policyPart(PolicyExponential, "jitter", func(to, from *FailurePolicy) { to.Jitter = from.Jitter }),
	policyPart(PolicyExponential, "max_retries", patchRetries),
	{path: "failure_policy.max_retries", apply: func(to, from *Job) {
		p := &to.FailurePolicy
		*p = p.inForm(p.Resolve(to.Recurring()).Kind, to.Recurring())
		patchRetries(p, &from.FailurePolicy)
	}},
	{path: "failure_policy.on_exhausted", apply: func(to, from *Job) {
		to.FailurePolicy.OnExhausted = from.FailurePolicy.OnExhausted
	}},
	{path: "failure_policy.pause_after", apply: func(to, from *Job) {
		to.FailurePolicy.PauseAfter = from.FailurePolicy.PauseAfter
	}},
	{path: "history.runs", apply: func(to, from *Job) { to.History.Runs = from.History.Runs }},
	{path: "history.keep", apply: func(to, from *Job) { to.History.Keep = from.History.Keep }},
	{path: "history.no_results", apply: func(to, from *Job) { to.History.NoResults = from.History.NoResults }},
}

// patchData replaces the payload, be it data or a reference, and the content type if the new one has one;
// "content_type" alone replaces only that.
func patchData(to, from *Job) {
	contentType := to.Data.ContentType
	to.Data = from.Data
	if from.Data.ContentType == "" {
		to.Data.ContentType = contentType
	}
}

// whole is a field of a job, which is replaced as a whole.
func whole(name string, apply func(to, from *Job)) patchField {
	return patchField{path: name, apply: apply}
}

// PatchFields returns the fields that a patch may name.
func PatchFields() []string { return patchPaths(false) }

// PatchParts returns the paths of the fields within policies that a patch may name.
func PatchParts() []string { return patchPaths(true) }

func patchPaths(parts bool) (paths []string) {
	for i := range patchFields {
		if path := patchFields[i].path; strings.Contains(path, ".") == parts {
			paths = append(paths, path)
		}
	}
	return paths
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
	recurring, given := old.Recurring(), p.Job.FailurePolicy.Kind
	for _, name := range p.Fields {
		if !slices.ContainsFunc(patchFields, func(f patchField) bool { return f.path == name }) {
			return Job{}, unpatchable(name)
		}
	}
	for i := range patchFields {
		f := &patchFields[i]
		if !slices.Contains(p.Fields, f.path) {
			continue
		}
		if f.form != PolicyDefault && given != PolicyDefault && given != f.form {
			return Job{}, invalid(f.path, "the patch gives the policy %v", given)
		}
		f.apply(&old, &p.Job)
	}
	if recurring && !old.Recurring() && !(p.namesPart("due_time") && !p.Job.Due.IsZero()) {
		return Job{}, invalid("schedule",
			"without it the job would run at once, and be gone; give due_time in the same "+
				"patch to have it run once more, or pause or delete it")
	}
	return old, nil
}

func unpatchable(name string) error {
	switch name {
	case "namespace", "name":
		return invalid(name, "it says which job; to rename a job put a new one and delete the old one")
	case "status":
		return invalid(name, "it is set by the server")
	}
	field := strings.ToValidUTF8(clip(name), "\uFFFD")
	return invalid(field, "a job has no such field to patch; use some of %s", strings.Join(PatchFields(), ", "))
}

func patchRetries(to, from *FailurePolicy) { to.MaxRetries = from.MaxRetries }

// policyPart is a field of one form of failure policies. A job with another form gets this form, with only
// that field.
func policyPart(form PolicyKind, name string, set func(to, from *FailurePolicy)) patchField {
	path := (&FailurePolicy{Kind: form}).field(name)
	return patchField{path: path, form: form, apply: func(to, from *Job) {
		to.FailurePolicy = to.FailurePolicy.inForm(form, to.Recurring())
		set(&to.FailurePolicy, &from.FailurePolicy)
	}}
}

// formPart is a form itself: the patch sets it, or removes it.
func formPart(form PolicyKind) patchField {
	return patchField{path: policyWords.field + "." + form.String(), form: form, apply: func(to, from *Job) {
		switch {
		case from.FailurePolicy.Kind == form:
			to.FailurePolicy = to.FailurePolicy.inForm(form, to.Recurring())
		case to.FailurePolicy.Kind == form:
			to.FailurePolicy = FailurePolicy{}.withCommon(&to.FailurePolicy)
		}
	}}
}

// inForm returns what a patch of a field of the form starts from: the policy if it has the form, else the
// default policy if that has it, else an empty policy of the form.
func (p FailurePolicy) inForm(form PolicyKind, recurring bool) FailurePolicy {
	base := FailurePolicy{Kind: form}
	switch {
	case p.Kind == form:
		base = p
	case p.Kind == PolicyDefault && form == PolicyConstant && p.Resolve(recurring).Kind == form:
		base = p.Resolve(recurring)
	}
	return base.withCommon(&p)
}

// ForMessage returns the patch's job. If it sets fields of a failure policy without its form, it gets that
// form: a message of the API has these fields within a form.
func (p *Patch) ForMessage() Job {
	j := p.Job
	if j.FailurePolicy.Kind != PolicyDefault || slices.Contains(p.Fields, "failure_policy") {
		return j
	}
	for i := range patchFields {
		part := &patchFields[i]
		bare := strings.Count(part.path, ".") == 1
		if !bare && part.form != PolicyDefault && slices.Contains(p.Fields, part.path) {
			j.FailurePolicy.Kind = part.form
			return j
		}
	}
	if slices.Contains(p.Fields, "failure_policy.max_retries") {
		j.FailurePolicy.Kind = PolicyExponential
	}
	return j
}
