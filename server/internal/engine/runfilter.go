package engine

import (
	"context"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// runFilter is what a list of runs is filtered by while it is read.
type runFilter struct {
	q           *carillon.RunQuery
	from, until int64 // UTC ns: from <= time < until
	label       string
	value       string
	exact       bool // the label must have the value
}

func newRunFilter(q *carillon.RunQuery) runFilter {
	f := runFilter{q: q, from: boundOf(q.From, 0), until: boundOf(q.Until, math.MaxInt64)}
	f.label, f.value, f.exact = strings.Cut(q.Label, "=")
	return f
}

// needsSpecs reports whether unfinished runs are filtered by what is in specs.
func (f *runFilter) needsSpecs() bool { return f.q.Queue != "" || f.q.Kind != "" || f.label != "" }

// leavesOut reports whether runs are filtered by what no index has.
func (f *runFilter) leavesOut() bool {
	return f.needsSpecs() || f.q.Error != ""
}

func boundOf(t time.Time, none int64) int64 {
	if t.IsZero() {
		return none
	}
	return t.UnixNano()
}

// unfinished reports whether a run that is not finished passes, as far as the job's spec is not needed.
func (f *runFilter) unfinished(r *carillon.Run) bool {
	due := r.Due.UnixNano()
	return f.from <= due && due < f.until && strings.HasPrefix(r.Job, f.q.Prefix) && f.failed(r.Errors)
}

// mayMove reports whether a run that has not begun passes, if calendars may put it off.
func (f *runFilter) mayMove(r *carillon.Run) bool {
	return r.Due.UnixNano() < f.until && strings.HasPrefix(r.Job, f.q.Prefix) && f.failed(r.Errors)
}

// facts reports whether runs pass that go to a queue and are of a job with the labels.
func (f *runFilter) facts(q delivery.Queue, labels map[string]string) bool {
	if f.q.Queue != "" && q.Address != f.q.Queue || f.q.Kind != "" && q.Kind != f.q.Kind {
		return false
	}
	if f.label == "" {
		return true
	}
	value, ok := labels[f.label]
	return ok && (!f.exact || value == f.value)
}

// failed reports whether the last error has the text.
func (f *runFilter) failed(errors []carillon.AttemptError) bool {
	return f.q.Error == "" || len(errors) > 0 && strings.Contains(errors[len(errors)-1].Message, f.q.Error)
}

// finished reports whether a finished run passes; the query that read it has seen to its time.
func (f *runFilter) finished(r *store.RunRecord) bool {
	return strings.HasPrefix(r.Key.Name, f.q.Prefix) && f.failed(r.Errors) &&
		f.facts(delivery.ParseQueue(r.Queue).Plain(), r.Labels)
}

// match completes the run of the next record of a source, and reports whether it passes the filter. It does
// not if its job has gone while the list was read.
func (l *runList) match(ctx context.Context, s *source[store.Record],
	r carillon.Run) (carillon.Run, bool, error) {
	if !l.filter.unfinished(&r) {
		return r, false, nil
	}
	facts, err := l.factsOfNext(ctx, s)
	if err != nil || !facts.known {
		return r, false, err
	}
	ok := l.complete(&r, &facts)
	return r, ok, nil
}

// factsOfNext returns the facts of a source's next record. They are not known, too, if its label does not
// pass.
func (l *runList) factsOfNext(ctx context.Context, s *source[store.Record]) (jobFacts, error) {
	if spec := s.next[0].Spec; spec != nil && !codec.MatchLabel(spec, l.q.Label) {
		return jobFacts{}, nil // without decoding the spec
	}
	facts, err := l.specs.of(ctx, s)
	l.bytes += facts.size
	return facts, err
}

// complete sets what a run has from its job's spec, and reports whether that passes the filter.
func (l *runList) complete(r *carillon.Run, facts *jobFacts) bool {
	r.Queue = facts.queue.Address
	return l.filter.facts(facts.queue, facts.labels)
}

// specFacts finds what lists need of the specs of records that come without them: pending runs have those of
// their jobs as a rule, and long ones are not read by lists. Sources may use it concurrently.
type specFacts struct {
	mu   sync.Mutex // guards the rest
	read map[store.Ref]*jobFacts
}

// jobFacts is what lists need of a spec.
type jobFacts struct {
	known  bool
	size   int // of the spec, when it is first used after it had to be read by itself
	queue  delivery.Queue
	labels map[string]string
	dated  *carillon.Job // the schedule of a job with calendars, and nothing else of it
}

// specsAtOnce is how many specs are read at once, of which each may have a MiB.
const specsAtOnce = 8

// of returns the facts of a source's next record. Those of the records behind it are read with it.
func (f *specFacts) of(ctx context.Context, s *source[store.Record]) (jobFacts, error) {
	if s.next[0].Spec != nil {
		return factsOf(&s.next[0])
	}
	from := specRef(&s.next[0])
	facts, ok := f.take(from)
	if !ok {
		if _, err := f.readSome(ctx, s.shard, s.next); err != nil {
			return jobFacts{}, err
		}
		facts, _ = f.take(from)
	}
	return facts, nil
}

// ahead reads the specs that all of the records lack.
func (f *specFacts) ahead(ctx context.Context, shard store.Shard, records []store.Record) error {
	for more := true; more; {
		var err error
		if more, err = f.readSome(ctx, shard, records); err != nil {
			return err
		}
	}
	return nil
}

// take returns the facts of a spec that has been read. Their size is there once.
func (f *specFacts) take(from store.Ref) (facts jobFacts, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	read := f.read[from]
	if read == nil {
		return jobFacts{}, false
	}
	facts, read.size = *read, 0
	return facts, true
}

// readSome reads the first few specs that records of a shard lack. more reports whether others may be
// missing.
func (f *specFacts) readSome(ctx context.Context, shard store.Shard, records []store.Record) (more bool,
	err error) {
	refs := f.missing(records)
	if len(refs) == 0 {
		return false, nil
	}
	found, err := shard.Read(ctx, refs)
	if err != nil {
		return false, readError(err)
	}
	for i := range found {
		if r := &found[i]; r.Exists {
			facts, err := factsOf(r)
			if err != nil {
				return false, err
			}
			facts.size = len(r.Spec)
			f.mu.Lock()
			*f.read[r.Ref] = facts
			f.mu.Unlock()
		}
	}
	return len(refs) == specsAtOnce, nil
}

// missing returns the refs of specs that records lack, at most specsAtOnce. They count as read from then on.
func (f *specFacts) missing(records []store.Record) (refs []store.Ref) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.read == nil {
		f.read = map[store.Ref]*jobFacts{}
	}
	for i := 0; i < len(records) && len(refs) < specsAtOnce; i++ {
		if ref := specRef(&records[i]); records[i].Spec == nil && f.read[ref] == nil {
			f.read[ref] = &jobFacts{}
			refs = append(refs, ref)
		}
	}
	return refs
}

// specRef names the record that has the spec of a record.
func specRef(r *store.Record) store.Ref {
	if r.State.OwnSpec {
		return r.Ref
	}
	return r.Job()
}

func factsOf(r *store.Record) (jobFacts, error) {
	j, err := codec.DecodeSpec(r.Spec, r.Key)
	if err != nil {
		return jobFacts{}, readError(err)
	}
	facts := jobFacts{known: true, queue: delivery.QueueOf(r.Namespace, j.Target), labels: j.Labels}
	if len(j.Calendars.Names()) > 0 {
		facts.dated = &carillon.Job{Namespace: j.Namespace, Name: j.Name, Schedule: j.Schedule,
			TimeZone: j.TimeZone, Calendars: j.Calendars}
	}
	return facts, nil
}
