package carillon

import (
	"slices"
	"unicode/utf8"

	"github.com/carillonhq/carillon/schedule"
)

// A field that has no effect is refused, since whoever set it expects one. This is the only list of such
// fields; docs/api.md describes them.

// idleFields returns the given fields of a job that have no effect, by their API names, with the reason.
func (j *Job) idleFields() []idleField {
	if j.Recurring() {
		return nil
	}
	var fields []idleField
	idle := func(given bool, field, why string) {
		if given {
			fields = append(fields, idleField{field, why})
		}
	}
	const oneShot = "it has no effect on a job without a schedule, which runs once; give a schedule or leave it out"
	idle(j.TimeZone != "" && !j.zoned(), "time_zone", "it has an effect on a schedule, a retry cron, and on days, months or "+
		"years in due_time or ttl, of which there are none; leave it out")
	idle(j.DST != DSTSafe, "dst", oneShot)
	idle(j.Overlap != OverlapSerial, "overlap", oneShot)
	idle(j.Misfire != MisfireLatest, "misfire", oneShot)
	idle(j.CatchUpLimit != 0, "catch_up_limit", oneShot)
	idle(j.CatchUpWindow != 0, "catch_up_window", oneShot)
	return fields
}

// idleField is a field without effect.
type idleField struct{ name, why string }

// zoned reports whether a one-shot's time zone matters.
func (j *Job) zoned() bool {
	return j.FailurePolicy.Kind == PolicySchedule || schedule.OnCalendar(j.Due.text) || schedule.OnCalendar(j.TTL.text)
}

// checkEffects refuses fields without effect.
func (j *Job) checkEffects() error {
	for _, f := range j.idleFields() {
		return Errorf(InvalidArgument, f.name, "%s", f.why)
	}
	return nil
}

// ValidatePatched is [Job.Validate] for j, the result of applying the patch to old. A field without effect
// that old already has, as jobs may that were stored when it was still accepted, is tolerated unless the
// patch names it.
func (p *Patch) ValidatePatched(old, j *Job, lim Bounds) error {
	if err := j.validateFields(lim); err != nil {
		return err
	}
	before := old.idleFields()
	for _, f := range j.idleFields() {
		was := slices.ContainsFunc(before, func(b idleField) bool { return b.name == f.name })
		if !was || p.namesPart(f.name) {
			return Errorf(InvalidArgument, f.name, "%s", f.why)
		}
	}
	return nil
}

// namesPart reports whether the patch names a field, or a part of it.
func (p *Patch) namesPart(field string) bool {
	return slices.ContainsFunc(p.Fields, func(name string) bool { return topLevel(name) == field })
}

// CheckForm refuses what a message of the API cannot express, or only in part: data that could not be encoded
// as JSON, several targets, a note that is not UTF-8, and fields of another failure policy than the given
// one. [Job.Validate] refuses these, too; a client checks them before it sends a job.
func (j *Job) CheckForm() error {
	switch n := j.Target.count(); {
	case j.Data.err != nil:
		return Errorf(InvalidArgument, "data", "it cannot be written as JSON: %w", j.Data.err)
	case n > 1:
		return Errorf(InvalidArgument, "target", "there are %d; give exactly one", n)
	case !utf8.ValidString(j.Note):
		return Errorf(InvalidArgument, "note", "it is not UTF-8")
	}
	return j.FailurePolicy.checkForeign()
}
