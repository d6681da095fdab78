package carillon

import (
	"cmp"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/carillonhq/carillon/schedule"
)

// Validate checks every field, in the order of docs/concepts.md, and returns an error about the first wrong
// one: an *[Error] of kind InvalidArgument with the field's API name. An empty namespace is the default one,
// the server makes up an empty name, and a status is ignored. What depends on the time of the put is checked
// by the node.
func (j *Job) Validate(lim Bounds) error { return cmp.Or(j.validateFields(lim), j.checkEffects()) }

// validateFields is Validate without the check for fields that have no effect.
func (j *Job) validateFields(lim Bounds) error {
	lim = lim.withDefaults()
	return cmp.Or( // not a loop over functions, which would put job and limits on the heap
		j.checkName(&lim), j.checkTiming(&lim), j.checkData(&lim), j.checkMaps(&lim), j.Target.check(&lim),
		j.checkFailurePolicy(&lim), j.checkAttempt(), j.checkRules(), j.checkConcurrencyKey(),
		j.checkDependsOn(&lim), checkNote(j.Note, &lim), j.checkHistory(),
	)
}

func (j *Job) checkName(lim *Bounds) error {
	if j.Namespace != "" {
		if err := checkNamespace(j.Namespace, lim.Namespace); err != nil {
			return err
		}
	}
	if j.Name == "" {
		return nil
	}
	return cmp.Or(checkJobName(j.Name, lim.Name), j.Target.Dapr.checkNameOf(j.Name))
}

// referenceNow stands in for the time of the put where only the form of a relative time matters.
var referenceNow = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// checkTiming checks when the job runs: schedule, time_zone, dst, except, only, due_time, repeats, ttl,
// jitter.
func (j *Job) checkTiming(lim *Bounds) error {
	sched, err := j.checkSchedule(lim)
	if err != nil {
		return err
	}
	if _, err := location(j.TimeZone); err != nil {
		return err
	}
	err = cmp.Or(j.Calendars.Validate(), j.checkLife(), checkSpan("jitter", j.Jitter, 0, MaxSpan))
	if err != nil {
		return err
	}
	if sched != nil && sched.Period() > 0 && j.Jitter > sched.Period() {
		return invalid("jitter", "%s is longer than the schedule's interval, %s", schedule.Brief(j.Jitter),
			schedule.Brief(sched.Period()))
	}
	return nil
}

func (j *Job) checkSchedule(lim *Bounds) (*schedule.Schedule, error) {
	if len(j.Schedule) > lim.Schedule {
		return nil, tooLarge("schedule", len(j.Schedule), lim.Schedule)
	}
	return j.ParseSchedule()
}

// checkLife checks due_time, repeats and ttl. That a life ends too soon is detected here only if both ends
// are absolute.
func (j *Job) checkLife() error {
	loc := j.Location()
	due, dueMoves := referenceNow, true
	if !j.Due.IsZero() {
		var err error
		if due, dueMoves, err = j.Due.resolve("due_time", referenceNow, loc); err != nil {
			return err
		}
	}
	if j.Repeats > 0 && !j.Recurring() {
		return invalid("repeats", "only a job with a schedule has repeats; give a schedule or leave it out")
	}
	if j.TTL.IsZero() {
		return nil
	}
	expires, endMoves, err := j.TTL.resolve("ttl", due, loc)
	switch {
	case err != nil:
		return err
	case !dueMoves && !endMoves && expires.Before(due):
		return invalid("ttl", "%w: it ends at %s, the run is at %s", ErrEndsFirst, show(expires), show(due))
	}
	return nil
}

// checkData checks data, payload and content_type.
func (j *Job) checkData(lim *Bounds) error {
	if err := j.checkRef(); err != nil {
		return err
	}
	switch {
	case j.Data.err != nil:
		return invalid("data", "it cannot be written as JSON: %w", j.Data.err)
	case len(j.Data.Bytes) > lim.Payload:
		return tooLarge("data", len(j.Data.Bytes), lim.Payload)
	case j.Data.ContentType == "" || j.Data.ContentType == ContentTypeJSON ||
		j.Data.ContentType == ContentTypeBinary:
		return nil // most jobs have one of these, and parsing is expensive
	case len(j.Data.ContentType) > MaxContentType:
		return tooLarge("content_type", len(j.Data.ContentType), MaxContentType)
	}
	media, _, err := mime.ParseMediaType(j.Data.ContentType)
	if err != nil || !strings.Contains(media, "/") || strings.ContainsFunc(j.Data.ContentType, isNotASCII) {
		return invalid("content_type", "%q is not a media type such as application/json", clip(j.Data.ContentType))
	}
	return nil
}

// checkMaps checks metadata and labels.
func (j *Job) checkMaps(lim *Bounds) error {
	if err := checkMap("metadata", j.Metadata, lim.Metadata); err != nil {
		return err
	}
	if n := len(j.Labels); n > lim.Labels {
		return invalid("labels", "%d labels are more than %d", n, lim.Labels)
	}
	if err := checkMap("labels", j.Labels, lim.Metadata); err != nil {
		return err
	}
	for _, key := range sortedKeys(j.Labels) {
		if err := checkLabel(key, j.Labels[key]); err != nil {
			return err
		}
	}
	return nil
}

// checkLabel makes sure that labels can be queried by "key=value".
func checkLabel(key, value string) error {
	switch {
	case len(key) > MaxLabelKey:
		return invalid("labels", "the key %q has %d bytes, more than %d", clip(key), len(key), MaxLabelKey)
	case strings.Contains(key, "=") || !printable(key):
		return invalid("labels", `the key %q has a "=" or a character that is not printable`, clip(key))
	case len(value) > MaxLabelValue:
		return invalid("labels", "the value of %q has %d bytes, more than %d", clip(key), len(value), MaxLabelValue)
	case !printable(value):
		return invalid("labels", "the value of %q has a character that is not printable", clip(key))
	}
	return nil
}

// checkMap checks what all string maps have in common.
func checkMap(field string, m map[string]string, most int) error {
	size := 0
	for _, key := range sortedKeys(m) {
		value := m[key]
		size += len(key) + len(value)
		switch {
		case key == "":
			return invalid(field, "a key is empty")
		case !utf8.ValidString(key):
			return invalid(field, "the key %q is not UTF-8", clip(key))
		case !utf8.ValidString(value):
			return invalid(field, "the value of %q is not UTF-8", clip(key))
		}
	}
	if size > most {
		return tooLarge(field, size, most)
	}
	return nil
}

// sortedKeys returns the keys of a map, sorted. Most maps of a job are empty, which costs nothing.
func sortedKeys[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// checkAttempt checks timeout and lease.
func (j *Job) checkAttempt() error {
	if err := checkSpan("timeout", j.Timeout, MinTimeout, MaxTimeout); err != nil {
		return err
	}
	if j.Lease != 0 && !j.Target.leased() {
		return invalid("lease", "only worker and exec targets have a lease; leave it out for %s", j.Target.Kind())
	}
	return checkSpan("lease", j.Lease, MinLease, MaxLease)
}

// checkRules checks overlap, misfire, catch_up_limit, catch_up_window and priority.
func (j *Job) checkRules() error {
	return cmp.Or(
		overlapWords.check(uint8(j.Overlap)),
		misfireWords.check(uint8(j.Misfire.Rule)),
		checkNumber("catch_up_limit", j.Misfire.Limit, 0, MaxCatchUp),
		checkSpan("catch_up_window", j.Misfire.Window, 0, MaxSpan),
		priorityWords.check(uint8(j.Priority)))
}

// checkConcurrencyKey makes sure that concurrency keys can be written in a namespace's settings.
func (j *Job) checkConcurrencyKey() error {
	if j.ConcurrencyKey == "" {
		return nil
	}
	return checkLimitName("concurrency_key", j.ConcurrencyKey)
}

// checkDependsOn checks depends_on.
func (j *Job) checkDependsOn(lim *Bounds) error {
	if len(j.DependsOn) > MaxDependsOn {
		return invalid("depends_on", "%d jobs are more than %d", len(j.DependsOn), MaxDependsOn)
	}
	for i, name := range j.DependsOn {
		field := fmt.Sprintf("depends_on[%d]", i)
		if err := checkJobName(name, lim.Name); err != nil {
			return WithField(err, field)
		}
		switch {
		case name == j.Name:
			return invalid(field, "a job cannot wait for itself")
		case slices.Contains(j.DependsOn[:i], name):
			return invalid(field, "%q is named twice", clip(name))
		}
	}
	return nil
}

func checkNote(note string, lim *Bounds) error {
	switch {
	case len(note) > lim.Note:
		return tooLarge("note", len(note), lim.Note)
	case !utf8.ValidString(note):
		return invalid("note", "it is not UTF-8")
	}
	return nil
}

// Validate checks the note, which is stored with the job and has the same limit as a job's.
func (p *PauseOptions) Validate(lim Bounds) error {
	lim = lim.withDefaults()
	return checkNote(p.Note, &lim)
}

// Validate returns an error about the first wrong field. Data and metadata have the limits of a job's.
func (o *TriggerOptions) Validate(lim Bounds) error {
	lim = lim.withDefaults()
	j := Job{Metadata: o.Metadata}
	if o.Data != nil {
		j.Data = *o.Data
	}
	if err := cmp.Or(j.checkData(&lim), checkMap("metadata", j.Metadata, lim.Metadata),
		overlapWords.check(uint8(o.Rule()))); err != nil {
		return err
	}
	if o.Rule() == OverlapSerial {
		return invalid("overlap", "serial is not supported yet for a trigger; use allow, skip or replace")
	}
	return nil
}

func (j *Job) checkHistory() error {
	return cmp.Or(checkNumber("history.runs", j.History.Runs, -1, MaxHistoryRuns),
		checkSpan("history.keep", j.History.Keep, 0, MaxSpan))
}

// checkSpan refuses a duration that is negative or out of bounds; 0 means the default and is always accepted.
func checkSpan(field string, d, least, most time.Duration) error {
	switch {
	case d == 0:
		return nil
	case d < 0:
		return invalid(field, "%v is negative; write for example 90s", d)
	case d < least:
		return invalid(field, "%s is shorter than %s", schedule.Brief(d), schedule.Brief(least))
	case d > most:
		return invalid(field, "%s is longer than %s", schedule.Brief(d), schedule.Brief(most))
	}
	return nil
}

func checkNumber(field string, n, least, most int) error {
	if n < least || n > most {
		return invalid(field, "%d is out of range %d-%d", n, least, most)
	}
	return nil
}

func tooLarge(field string, size, most int) error {
	return invalid(field, "%d bytes are more than %d", size, most)
}

// printable reports whether s is UTF-8 of letters, marks, numbers, punctuation, symbols and the ASCII space.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func isNotASCII(r rune) bool { return r < ' ' || r > '~' }

// Validate returns an error about the first wrong part; neither may be empty.
func (k Key) Validate() error {
	return cmp.Or(ValidateNamespace(k.Namespace), checkJobName(k.Name, MaxName))
}

// ValidateNamespace checks a namespace: 1 to 63 bytes of a-z, A-Z, 0-9 and "-". Letters of both cases differ.
func ValidateNamespace(namespace string) error { return checkNamespace(namespace, MaxNamespace) }

// Validate returns an error about the queue's name.
func (t *WorkerTarget) Validate() error {
	switch {
	case t.Queue == "":
		return invalid("queue", "the queue's name is missing")
	case len(t.Queue) > MaxName:
		return tooLarge("queue", len(t.Queue), MaxName)
	case !printable(t.Queue):
		return invalid("queue", "%q has a character that is not printable", clip(t.Queue))
	}
	return nil
}

const namespaceLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"

func checkNamespace(namespace string, most int) error {
	switch {
	case namespace == "":
		return invalid("namespace", "it is missing")
	case len(namespace) > most:
		return tooLarge("namespace", len(namespace), most)
	case strings.Trim(namespace, namespaceLetters) != "":
		return invalid("namespace", "%q has a character other than a-z, A-Z, 0-9 and -", clip(namespace))
	}
	return nil
}

func checkJobName(name string, most int) error {
	if name == "" {
		return invalid("name", "it is missing")
	}
	if err := checkCharacters("name", name, most); err != nil {
		return err
	}
	for level := range strings.SplitSeq(name, "/") {
		switch level {
		case "":
			return invalid("name", `%q has an empty level: nothing stands before, between or after "/"`, clip(name))
		case ".", "..":
			return invalid("name", "%q has the level %q, which HTTP clients take out of a path; write another word",
				clip(name), level)
		}
	}
	return nil
}

// checkCharacters checks the name of a job, or how it begins.
func checkCharacters(field, name string, most int) error {
	if len(name) <= most && strings.Contains(name, ":") {
		return invalid(field, `%q has a ":", which begins a verb in the API`, clip(name))
	}
	return checkPrintable(field, name, most)
}

// checkPrintable checks a name that may have a ":", such as that of a queue, which may be a host with its
// port.
func checkPrintable(field, name string, most int) error {
	switch {
	case len(name) > most:
		return tooLarge(field, len(name), most)
	case !printable(name):
		return invalid(field, "%q has a character that is not printable", clip(name))
	}
	return nil
}

// renamedWithin prefixes the field of err with outer; nil stays nil.
func renamedWithin(outer string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return WithField(err, outer+"."+e.Field)
	}
	return err
}

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
	idle(j.Calendars.DST != DSTSafe, "dst", oneShot)
	idle(len(j.Calendars.Except) > 0, "except", oneShot)
	idle(len(j.Calendars.Only) > 0, "only", oneShot)
	idle(j.Overlap != OverlapSerial, "overlap", oneShot)
	idle(j.Misfire.Rule != MisfireLatest, "misfire", oneShot)
	idle(j.Misfire.Limit != 0, "catch_up_limit", oneShot)
	idle(j.Misfire.Window != 0, "catch_up_window", oneShot)
	return fields
}

// idleField is a field without effect.
type idleField struct{ name, why string }

// zoned reports whether a one-shot's time zone matters.
func (j *Job) zoned() bool {
	return j.FailurePolicy.Kind == PolicySchedule || schedule.OnCalendar(j.Due.text) ||
		schedule.OnCalendar(j.TTL.text)
}

// checkEffects refuses fields without effect.
func (j *Job) checkEffects() error {
	for _, f := range j.idleFields() {
		return invalid(f.name, "%s", f.why)
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
			return invalid(f.name, "%s", f.why)
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
		return invalid("data", "it cannot be written as JSON: %w", j.Data.err)
	case n > 1:
		return invalid("target", "there are %d; give exactly one", n)
	case !utf8.ValidString(j.Note):
		return invalid("note", "it is not UTF-8")
	}
	return j.FailurePolicy.checkForeign()
}
