package bench

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
)

// Stalls say where late runs have lost their time. The generator's timer, which should fire every
// millisecond, is the control: the generator shares the machine with the node, so what holds up the timer has
// held up the receiving of runs, and perhaps the node.
type Stalls struct {
	Generator *Quantiles `json:"generator_ms,omitempty"`
	// in the node: from due to handed to a worker's stream
	Handing    *Spread `json:"handing_ms,omitempty"`
	Commits    *Spread `json:"commits_ms,omitempty"`    // until a batch was durable
	Scheduling *Spread `json:"scheduling_ms,omitempty"` // in the node: from able to go on until given a CPU
	Pauses     *Spread `json:"pauses_ms,omitempty"`     // for which the node's collector stopped everything
	GCs        int64   `json:"collections"`             // of the node
	// slices of time in which one of the latest 0.1 % of the runs came
	Late   int `json:"late_slices"`
	Shared int `json:"late_slices_shared"` // of these, those in which the timer was at least half as late
}

// String is for people.
func (s *Stalls) String() string {
	var parts []string
	add := func(name string, q *Spread) {
		if q != nil {
			parts = append(parts, fmt.Sprintf("%s p99 ≤ %.3g, p99.9 ≤ %.3g, max ≤ %.3g", name, q.P99, q.P999, q.Max))
		}
	}
	if q := s.Generator; q != nil {
		parts = append(parts, fmt.Sprintf("generator's timer p99 %.3g, p99.9 %.3g, max %.3g", q.P99, q.P999, q.Max))
	}
	add("due to handed", s.Handing)
	add("commits", s.Commits)
	add("waits for a CPU", s.Scheduling)
	add(fmt.Sprintf("%d collections, pauses", s.GCs), s.Pauses)
	return fmt.Sprintf("%s (ms); the timer was late too in %d of the %d moments with the latest 0.1 %%",
		strings.Join(parts, "; "), s.Shared, s.Late)
}

// slice is how finely the times of stalls are told apart.
const slice = 10 * time.Millisecond

// stallWatch watches for stalls between start and end. It receives runs on behalf of a ledger to see when the
// late ones come.
type stallWatch struct {
	sink
	address string // of the node's metrics; "" = not known
	before  *scraped
	timer   *histogram
	quit    context.CancelFunc
	ended   chan struct{}
	start   time.Time
	runs    []atomic.Int64 // in each slice: how late the latest run was, ns
	own     []atomic.Int64 // the same of the timer
}

// newStallWatch is a watch that will start at a time and take so long.
func newStallWatch(s sink, address string, start time.Time, length time.Duration) *stallWatch {
	n := int(length/slice) + 1
	return &stallWatch{sink: s, address: address, start: start, timer: newHistogram(),
		ended: make(chan struct{}), runs: make([]atomic.Int64, n), own: make([]atomic.Int64, n)}
}

func (w *stallWatch) receive(run *carillon.Run, at time.Time) (time.Duration, bool) {
	late, ok := w.sink.receive(run, at)
	if ok {
		w.note(w.runs, late, at)
	}
	return late, ok
}

// note keeps the latest of each slice.
func (w *stallWatch) note(slices []atomic.Int64, late time.Duration, at time.Time) {
	i := int(at.Sub(w.start) / slice)
	if at.Before(w.start) || i >= len(slices) {
		return
	}
	for old := slices[i].Load(); int64(late) > old && !slices[i].CompareAndSwap(old, int64(late)); {
		old = slices[i].Load()
	}
}

// begin begins to watch; the watch must be closed.
func (w *stallWatch) begin(ctx context.Context) error {
	if w.address != "" {
		var err error
		if w.before, err = scrape(ctx, w.address); err != nil {
			return err
		}
	}
	ctx, w.quit = context.WithCancel(ctx)
	go w.tick(ctx)
	return nil
}

// tick is the control: it does nothing but to be called every millisecond, or as soon after that as the
// machine lets it.
func (w *stallWatch) tick(ctx context.Context) {
	defer close(w.ended)
	const period = time.Millisecond
	turn := time.Now()
	for {
		turn = turn.Add(period)
		// behind, pause does not look at ctx
		if err := pause(ctx, time.Until(turn)); err != nil || ctx.Err() != nil {
			return
		}
		now := time.Now()
		late := now.Sub(turn)
		w.timer.record(late) // turns that were missed count: they would have been late too
		w.note(w.own, late, now)
	}
}

// close ends the watch; it may be called again.
func (w *stallWatch) close() {
	w.quit()
	<-w.ended
}

// end says what was seen, given the lateness of the runs.
func (w *stallWatch) end(ctx context.Context, late *histogram) (*Stalls, error) {
	w.close()
	s := &Stalls{Generator: w.timer.quantiles()}
	s.Late, s.Shared = w.shared(late)
	if w.before == nil {
		return s, nil
	}
	after, err := scrape(ctx, w.address)
	if err != nil {
		return nil, err
	}
	s.Handing = after.spread(w.before, "carillon_lateness_seconds")
	s.Commits = after.spread(w.before, "carillon_commit_seconds")
	s.Scheduling = after.spread(w.before, "go_sched_latencies_seconds")
	s.Pauses = after.spread(w.before, "go_sched_pauses_total_gc_seconds")
	s.GCs = after.since(w.before, "go_gc_duration_seconds_count")
	return s, nil
}

// shared counts the slices with runs among the latest, and those in which the timer was late too. A stall may
// end at the border of two slices.
func (w *stallWatch) shared(late *histogram) (all, shared int) {
	q := late.quantiles()
	if q == nil {
		return 0, 0
	}
	from := int64(q.P999 * .999 * float64(time.Millisecond)) // a histogram rounds to three digits, upwards
	for i := range w.runs {
		run := w.runs[i].Load()
		if run < from {
			continue
		}
		all++
		own := int64(0)
		for j := max(0, i-1); j < min(i+2, len(w.own)); j++ {
			own = max(own, w.own[j].Load())
		}
		if 2*own >= run {
			shared++
		}
	}
	return all, shared
}
