package sim_test

import (
	"context"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
	"github.com/carillonhq/carillon/server/store"
)

// weighted is a profile in which some operations are drawn more often.
func weighted(p sim.Profile, faults []sim.FaultKind, more ...sim.Weight) sim.Profile {
	p.Kinds = append(slices.Clone(p.Kinds), more...)
	if faults != nil {
		p.Faults = faults
	}
	return p
}

// policyMutants are aimed at what the checker has to excuse: pauses, catching up, skips, redrives, limits,
// releases, backfills, wrong clocks and endpoints that are down.
var policyMutants = []mutant{
	{"a pause lets one more run begin", quiet, []string{"S2"},
		api(func(s sim.Scheduler) sim.Scheduler { return tardy{s} })},
	{"a pause lets one more run begin after a kill", sim.Pauses, []string{"S2"},
		api(func(s sim.Scheduler) sim.Scheduler { return tardy{s} })},
	{"a patch of a note is a put", weighted(quiet, nil, sim.Weight{Kind: checker.Patch, N: 40}),
		[]string{"S2", "S12"}, api(func(s sim.Scheduler) sim.Scheduler { return rearmed{s} })},
	{"attempts are counted with another batch",
		weighted(killing, nil, sim.Weight{Kind: checker.Trigger, N: 20}), []string{"S16"}, batches(drifting)},
	{"a skip passes over two times", quiet, []string{"S12"},
		api(func(s sim.Scheduler) sim.Scheduler { return hasty{s} })},
	{"every resume catches up", weighted(quiet, nil, sim.Weight{Kind: checker.Pause, N: 20},
		sim.Weight{Kind: checker.Resume, N: 20}), []string{"S2", "S12"},
		api(func(s sim.Scheduler) sim.Scheduler { return eager{s} })},
	{"what is to be replaced goes on", chaos, []string{"S9"}, edit(func(j *carillon.Job) {
		if j.Overlap == carillon.OverlapReplace {
			j.Overlap = carillon.OverlapAllow
		}
	})},
	{"a redriven run has lost its payload",
		weighted(chaos, nil, sim.Weight{Kind: checker.Redrive, N: 20}), []string{"S2"},
		func(*sim.Plan) sim.Mutant {
			f := &forgotten{dead: map[string]bool{}}
			return sim.Mutant{Dispatcher: func(d engine.Dispatcher) engine.Dispatcher { return emptied{d, f} },
				API: func(s sim.Scheduler) sim.Scheduler { return redriver{s, f} }}
		}},
	{"no permit is ever free", chaos, []string{"L1", "S3"},
		api(func(s sim.Scheduler) sim.Scheduler { return stingy{s} })},
	{"a release is lost", chaos, []string{"S3"},
		dependents(batches(func(b *store.Batch) { setWaits(b, false) }))},
	{"a dependent begins again on the same success", chaos, []string{"S12"},
		batches(func(b *store.Batch) { setWaits(b, true) })},
	{"a backfill leaves its last time out", quiet, []string{"S12", "S3"},
		api(func(s sim.Scheduler) sim.Scheduler { return sparing{s} })},
	{"a backfill runs a time twice after a crash",
		weighted(killing, nil, sim.Weight{Kind: checker.Backfill, N: 20}),
		[]string{"S10", "S4", "S12", "S11", "S3"}, disk(unplaced)},
	{"a clock that is wrong is more wrong than it was",
		weighted(chaos, []sim.FaultKind{sim.Clock}), []string{"S1"},
		func(*sim.Plan) sim.Mutant { return sim.Mutant{Clock: time.Second} }},
	{"an endpoint that is down holds up everybody", weighted(chaos, []sim.FaultKind{sim.EndpointDown}),
		[]string{"L1"}, heldUp},
}

// tardy pauses two seconds after it has said so.
type tardy struct{ sim.Scheduler }

// SetPaused is for [sim.Scheduler].
func (s tardy) SetPaused(ctx context.Context, k carillon.Key, p carillon.PauseOptions) (carillon.Job, error) {
	if !p.Paused {
		return s.Scheduler.SetPaused(ctx, k, p)
	}
	j, err := s.GetJob(ctx, k)
	if err == nil {
		// the job may have gone
		time.AfterFunc(2*time.Second, func() { _, _ = s.Scheduler.SetPaused(context.WithoutCancel(ctx), k, p) })
	}
	j.Paused = true
	return j, err
}

// rearmed makes a put of each patch: one-shots begin again.
type rearmed struct{ sim.Scheduler }

// PatchJob is for [sim.Scheduler].
func (s rearmed) PatchJob(ctx context.Context, k carillon.Key, p carillon.Patch) (carillon.PutResult, error) {
	j, err := s.GetJob(ctx, k)
	if err != nil || p.IfGeneration != 0 {
		return s.Scheduler.PatchJob(ctx, k, p)
	}
	if j, err = p.Apply(j); err != nil {
		return carillon.PutResult{}, err
	}
	return s.PutJob(ctx, j)
}

// drifting writes a job with an attempt of a run beside it that the store does not have.
func drifting(b *store.Batch) {
	b.Puts = slices.Clone(b.Puts)
	for i := range b.Puts {
		if s := &b.Puts[i].State; b.Puts[i].Seq == 0 && s.Pending > 0 {
			s.Counters.Fired++
		}
	}
}

// hasty passes over the time after the one that it says, too.
type hasty struct{ sim.Scheduler }

// SkipRun is for [sim.Scheduler].
func (s hasty) SkipRun(ctx context.Context, k carillon.Key) (carillon.SkipResult, error) {
	skip, err := s.Scheduler.SkipRun(ctx, k)
	if err == nil {
		_, _ = s.Scheduler.SkipRun(ctx, k) // there may be no other
	}
	return skip, err
}

// eager makes up for what passed in a pause, asked or not.
type eager struct{ sim.Scheduler }

// SetPaused is for [sim.Scheduler].
func (s eager) SetPaused(ctx context.Context, k carillon.Key, p carillon.PauseOptions) (carillon.Job, error) {
	p.CatchUp = !p.Paused
	return s.Scheduler.SetPaused(ctx, k, p)
}

// forgotten are the runs that were redriven.
type forgotten struct {
	careless
	dead map[string]bool
}

type redriver struct {
	sim.Scheduler
	f *forgotten
}

// RedriveRun is for [sim.Scheduler].
func (s redriver) RedriveRun(ctx context.Context, namespace, id string) (carillon.Run, error) {
	s.f.mu.Lock()
	s.f.dead[id] = true
	s.f.mu.Unlock()
	return s.Scheduler.RedriveRun(ctx, namespace, id)
}

type emptied struct {
	engine.Dispatcher
	f *forgotten
}

// Deliver is for [engine.Dispatcher].
func (d emptied) Deliver(p int, ds []delivery.Delivery, rest []delivery.Rest) {
	d.f.mu.Lock()
	for i := range ds {
		if d.f.dead[ds[i].Run.ID] {
			ds[i].Run.Data = carillon.Data{}
		}
	}
	d.f.mu.Unlock()
	d.Dispatcher.Deliver(p, ds, rest)
}

// stingy has no permits, whatever the limit.
type stingy struct{ sim.Scheduler }

// PutNamespace is for [sim.Scheduler].
func (s stingy) PutNamespace(ctx context.Context, ns carillon.Namespace) (carillon.Namespace, error) {
	none := map[string]int{}
	for k := range ns.ConcurrencyLimits {
		none[k] = 0
	}
	ns.ConcurrencyLimits = none
	return s.Scheduler.PutNamespace(ctx, ns)
}

// dependents lets half of the jobs that workers run come after another.
func dependents(f func(*sim.Plan) sim.Mutant) func(*sim.Plan) sim.Mutant {
	return func(p *sim.Plan) sim.Mutant {
		first := ""
		for i := range p.Ops {
			o := &p.Ops[i]
			switch {
			case o.Kind != checker.Put || o.Namespace != "default":
			case first == "":
				first = o.Job
			case o.Job != first && o.Client%2 == 0 && o.Spec.Queue[0] != 'h':
				o.Spec.After = []string{first}
			}
		}
		return f(p)
	}
}

// setWaits stores for each job that comes after others that all of them have succeeded, or none.
func setWaits(b *store.Batch, open bool) {
	b.Puts = slices.Clone(b.Puts)
	for i := range b.Puts {
		waits := slices.Clone(b.Puts[i].State.Waits)
		for k := range waits {
			waits[k].Open = open && waits[k].By != (store.RunID{})
		}
		b.Puts[i].State.Waits = waits
	}
}

// sparing runs one time less than it says.
type sparing struct{ sim.Scheduler }

// StartBackfill is for [sim.Scheduler].
func (s sparing) StartBackfill(ctx context.Context, k carillon.Key,
	spec carillon.BackfillSpec) (carillon.Backfill, error) {
	b, err := s.Scheduler.StartBackfill(ctx, k, spec)
	if err != nil || b.Total < 2 {
		return b, err
	}
	if _, err := s.CancelBackfill(ctx, k.Namespace, b.ID); err != nil {
		return b, err
	}
	total := b.Total
	spec.To = spec.To.Add(-time.Second)
	for b.Total >= total && spec.To.After(spec.From) {
		if b, err = s.Scheduler.StartBackfill(ctx, k, spec); err != nil {
			return b, err
		}
		if b.Total >= total {
			if _, err := s.CancelBackfill(ctx, k.Namespace, b.ID); err != nil {
				return b, err
			}
			spec.To = spec.To.Add(-time.Second)
		}
	}
	b.Total = total
	return b, nil
}

// unplaced does not write where backfills are in the second before a kill.
func unplaced(p *sim.Plan, _ store.Store) func(store.Store) store.Store {
	return applying(func(ctx context.Context, _ int, sh store.Shard, b *store.Batch) error {
		since := time.Since(p.Start)
		for _, f := range p.Faults {
			if f.Kind == sim.Kill && since < f.At && f.At-since < time.Second {
				other := *b
				other.MetaRecords = slices.DeleteFunc(slices.Clone(b.MetaRecords),
					func(s store.MetaRecord) bool { return s.Kind == store.KindBackfill })
				return sh.Apply(ctx, &other)
			}
		}
		return sh.Apply(ctx, b)
	})
}

// heldUp delivers nothing in time while an endpoint is down.
func heldUp(p *sim.Plan) sim.Mutant {
	return sim.Mutant{Dispatcher: func(d engine.Dispatcher) engine.Dispatcher { return slow{d, p} }}
}

type slow struct {
	engine.Dispatcher
	p *sim.Plan
}

// Deliver is for [engine.Dispatcher].
func (d slow) Deliver(p int, ds []delivery.Delivery, rest []delivery.Rest) {
	since := time.Since(d.p.Start)
	for _, f := range d.p.Faults {
		if f.Kind == sim.EndpointDown && since >= f.At && since < f.At+f.For {
			later := slices.Clone(ds)
			time.AfterFunc(f.At+f.For-since, func() { d.Dispatcher.Deliver(p, later, nil) })
			ds = nil
			break
		}
	}
	d.Dispatcher.Deliver(p, ds, rest)
}
