package sim_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
	"github.com/carillonhq/carillon/server/store"
)

// mutant is a planted bug, and where to look for it.
type mutant struct {
	name    string
	profile sim.Profile
	by      []string // invariants, one of which finds it; none = any
	make    func(p *sim.Plan) sim.Mutant
}

// quiet and chaos are short: a mutant that shows, shows soon.
var (
	quiet = sim.Quiet
	chaos = sim.Chaos

	killing = func() sim.Profile {
		p := sim.Chaos
		p.Faults, p.Storms = []sim.FaultKind{sim.Kill, sim.SlowStore}, 10
		return p
	}()
)

// mutants are faults of one node that the checker must find.
var mutants = []mutant{
	{"acknowledged before it is durable", chaos, []string{"S3", "S8", "S11", "L1"}, disk(forgetful)},
	{"a write of an earlier owner lands", killing, []string{"S7"}, disk(unfenced)},
	{"half a batch is applied", chaos, nil, disk(halves)},
	{"overdue records are not seen after a takeover", chaos, []string{"S3", "L1"}, disk(blind)},
	{"the clock runs ahead", quiet, []string{"S1"},
		func(*sim.Plan) sim.Mutant { return sim.Mutant{Clock: 2 * time.Second} }},
	{"the clock runs behind", quiet, []string{"L1", "S3"},
		func(*sim.Plan) sim.Mutant { return sim.Mutant{Clock: -5 * time.Second} }},
	{"a result does not name its attempt", chaos, []string{"S5"}, anyAttempt},
	{"a repeated result gets another answer", chaos, []string{"S5"}, sink(func(s dispatch.Sink) dispatch.Sink {
		return &moody{Sink: s, seen: map[string]bool{}}
	})},
	{"a pause is acknowledged and not made", quiet, []string{"S2", "S3", "S8"},
		api(func(s sim.Scheduler) sim.Scheduler { return pauseless{s} })},
	{"a delete is acknowledged and not made", quiet, []string{"S2", "S3", "S8"},
		api(func(s sim.Scheduler) sim.Scheduler { return deleteless{s} })},
	{"a put is acknowledged and lost", quiet, []string{"S3", "S8"},
		api(func(s sim.Scheduler) sim.Scheduler { return &putless{Scheduler: s} })},
	{"a trigger is acknowledged and lost", quiet, []string{"S3"},
		api(func(s sim.Scheduler) sim.Scheduler { return triggerless{s} })},
	{"daylight saving is taken literally", sim.Clocks, []string{"S2", "S3"},
		edit(func(j *carillon.Job) { j.Calendars.DST = carillon.DSTLiteral })},
	{"the retry delay is ignored", chaos, []string{"I11"}, edit(func(j *carillon.Job) {
		j.FailurePolicy.Interval, j.FailurePolicy.Initial = 0, time.Millisecond
	})},
	{"attempts are counted again after a restart", chaos, []string{"I11", "S11", "S2"},
		seen(func(r *store.Record) { r.State.Run.Attempt = 0 })},
	{"runs overlap", chaos, []string{"S9"}, edit(func(j *carillon.Job) { j.Overlap = carillon.OverlapAllow })},
	{"all missed times are made up for", chaos, []string{"S12"},
		edit(func(j *carillon.Job) { j.Misfire.Rule, j.Misfire.Limit = carillon.MisfireAll, 0 })},
	{"what did not run is not recorded", chaos, []string{"S3", "S12"}, batches(func(b *store.Batch) {
		b.Runs = slices.DeleteFunc(slices.Clone(b.Runs),
			func(r store.RunRecord) bool { return r.Status == carillon.RunSkipped })
	})},
	{"deletes are not applied", quiet, nil, batches(func(b *store.Batch) { b.Deletes = nil })},
	{"an attempt goes to two workers", chaos, []string{"S10", "S2"}, func(*sim.Plan) sim.Mutant {
		return sim.Mutant{Dispatcher: func(d engine.Dispatcher) engine.Dispatcher { return &twice{Dispatcher: d} }}
	}},
	{"leases do not end", chaos, []string{"L3", "L1", "S3"}, edit(func(j *carillon.Job) {
		if j.Target.Worker != nil {
			j.Lease = 24 * time.Hour
		}
		j.Timeout = 24 * time.Hour
	})},
	{"the limit is one too high", chaos, []string{"S9"},
		api(func(s sim.Scheduler) sim.Scheduler { return generous{s} })},
	{"an unknown outcome is taken for applied", chaos, nil, func(*sim.Plan) sim.Mutant {
		return sim.Mutant{Store: applied(func(err error) error {
			if store.OutcomeOf(err) == store.Unknown {
				return nil
			}
			return err
		})}
	}},
	{"the payload is that of the put before", quiet,
		[]string{"S2", "S3", "S8"}, api(func(s sim.Scheduler) sim.Scheduler {
			return &stale{Scheduler: s, last: map[carillon.Key]carillon.Data{}}
		})},
	{"a cancelled run goes on", chaos, []string{"S3", "S12"},
		api(func(s sim.Scheduler) sim.Scheduler { return cancelless{s} })},
	{"an epoch is given twice", chaos, []string{"S6"},
		disk(func(*sim.Plan, store.Store) func(store.Store) store.Store { return frozen })},
}

// api plants a bug in what clients call.
func api(f func(sim.Scheduler) sim.Scheduler) func(*sim.Plan) sim.Mutant {
	return func(*sim.Plan) sim.Mutant { return sim.Mutant{API: f} }
}

// sink plants a bug in what consumers say.
func sink(f func(dispatch.Sink) dispatch.Sink) func(*sim.Plan) sim.Mutant {
	return func(*sim.Plan) sim.Mutant { return sim.Mutant{Sink: f} }
}

// edit plants a bug in every job that is put: what the client asked for is not what the node does.
func edit(f func(*carillon.Job)) func(*sim.Plan) sim.Mutant {
	return api(func(s sim.Scheduler) sim.Scheduler { return editor{s, f} })
}

type editor struct {
	sim.Scheduler
	edit func(*carillon.Job)
}

// PutJob is for [sim.Scheduler].
func (e editor) PutJob(ctx context.Context, j carillon.Job,
	opts ...carillon.PutOption) (carillon.PutResult, error) {
	e.edit(&j)
	return e.Scheduler.PutJob(ctx, j, opts...)
}

type pauseless struct{ sim.Scheduler }

// SetPaused is for [sim.Scheduler].
func (s pauseless) SetPaused(ctx context.Context, k carillon.Key,
	p carillon.PauseOptions) (carillon.Job, error) {
	if !p.Paused {
		return s.Scheduler.SetPaused(ctx, k, p)
	}
	j, err := s.GetJob(ctx, k)
	j.Paused = true
	return j, err
}

type deleteless struct{ sim.Scheduler }

// DeleteJob is for [sim.Scheduler].
func (s deleteless) DeleteJob(ctx context.Context, k carillon.Key,
	_ ...carillon.DeleteOption) (carillon.DeleteResult, error) {
	_, err := s.GetJob(ctx, k)
	return carillon.DeleteResult{}, err
}

// putless loses every third put.
type putless struct {
	sim.Scheduler
	mu sync.Mutex
	n  int
}

// PutJob is for [sim.Scheduler].
func (s *putless) PutJob(ctx context.Context, j carillon.Job,
	opts ...carillon.PutOption) (carillon.PutResult, error) {
	p, err := s.Scheduler.PutJob(ctx, j, opts...)
	s.mu.Lock()
	s.n++
	lose := s.n%3 == 0
	s.mu.Unlock()
	if err == nil && lose {
		_, err = s.DeleteJob(ctx, j.Key())
	}
	return p, err
}

type triggerless struct{ sim.Scheduler }

// TriggerJob is for [sim.Scheduler].
func (s triggerless) TriggerJob(ctx context.Context, k carillon.Key,
	_ ...carillon.TriggerOption) (carillon.Run, error) {
	if _, err := s.GetJob(ctx, k); err != nil {
		return carillon.Run{}, err
	}
	return carillon.Run{ID: "04000000000000000000000000000000000000000000000000"}, nil
}

type cancelless struct{ sim.Scheduler }

// CancelRun is for [sim.Scheduler].
func (s cancelless) CancelRun(ctx context.Context, ns, id string) (carillon.CancelResult, error) {
	_, err := s.GetRun(ctx, ns, id)
	return carillon.CancelResult{Prevented: true}, err
}

type generous struct{ sim.Scheduler }

// PutNamespace is for [sim.Scheduler].
func (s generous) PutNamespace(ctx context.Context, ns carillon.Namespace) (carillon.Namespace, error) {
	more := map[string]int{}
	for k, n := range ns.ConcurrencyLimits {
		more[k] = n + 1
	}
	ns.ConcurrencyLimits = more
	return s.Scheduler.PutNamespace(ctx, ns)
}

// stale gives each job the payload of the put before.
type stale struct {
	sim.Scheduler
	mu   sync.Mutex
	last map[carillon.Key]carillon.Data
}

// PutJob is for [sim.Scheduler].
func (s *stale) PutJob(ctx context.Context, j carillon.Job,
	opts ...carillon.PutOption) (carillon.PutResult, error) {
	s.mu.Lock()
	data, ok := s.last[j.Key()]
	s.last[j.Key()] = j.Data
	s.mu.Unlock()
	if ok {
		j.Data = data
	}
	return s.Scheduler.PutJob(ctx, j, opts...)
}

// moody calls a result stale that it is told again.
type moody struct {
	dispatch.Sink
	mu   sync.Mutex
	seen map[string]bool
}

// Reports is for [dispatch.Sink].
func (s *moody) Reports(rs []delivery.Report) {
	for _, r := range rs {
		s.mu.Lock()
		again := s.seen[r.Token]
		s.seen[r.Token] = true
		s.mu.Unlock()
		if again && r.From != nil {
			r.From.Stale(r.Token)
			continue
		}
		s.Sink.Reports([]delivery.Report{r})
	}
}

// anyAttempt takes the result of an attempt for one of the newest.
func anyAttempt(*sim.Plan) sim.Mutant {
	c := &careless{newest: map[string]string{}}
	return sim.Mutant{
		Dispatcher: func(d engine.Dispatcher) engine.Dispatcher { return careful{d, c} },
		Sink:       func(s dispatch.Sink) dispatch.Sink { return credulous{s, c} },
	}
}

type careless struct {
	mu     sync.Mutex
	newest map[string]string // by run
}

type careful struct {
	engine.Dispatcher
	c *careless
}

// Deliver is for [engine.Dispatcher].
func (d careful) Deliver(p int, ds []delivery.Delivery, rest []delivery.Rest) {
	d.c.mu.Lock()
	for i := range ds {
		d.c.newest[ds[i].Run.ID] = ds[i].Run.Token
	}
	d.c.mu.Unlock()
	d.Dispatcher.Deliver(p, ds, rest)
}

type credulous struct {
	dispatch.Sink
	c *careless
}

// Reports is for [dispatch.Sink].
func (s credulous) Reports(rs []delivery.Report) {
	for _, r := range rs {
		s.c.mu.Lock()
		newest := s.c.newest[r.RunID]
		s.c.mu.Unlock()
		if newest != "" && newest != r.Token && r.From != nil {
			r.From = answer{r.From, r.Token}
			r.Token = newest
		}
		s.Sink.Reports([]delivery.Report{r})
	}
}

// answer is told under the token that the result came with.
type answer struct {
	to    delivery.Reporter
	token string
}

// Accepted is for [delivery.Reporter].
func (a answer) Accepted(string) { a.to.Accepted(a.token) }

// Stale is for [delivery.Reporter].
func (a answer) Stale(string) { a.to.Stale(a.token) }

// twice delivers every tenth attempt twice.
type twice struct {
	engine.Dispatcher
	mu sync.Mutex
	n  int
}

// Deliver is for [engine.Dispatcher].
func (d *twice) Deliver(p int, ds []delivery.Delivery, rest []delivery.Rest) {
	d.Dispatcher.Deliver(p, ds, rest)
	d.mu.Lock()
	d.n += len(ds)
	again := d.n%10 == 0
	d.mu.Unlock()
	if again {
		d.Dispatcher.Deliver(p, ds, nil)
	}
}
