package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// Profile is what kind of plan a seed makes.
type Profile struct {
	Name   string
	Busy   time.Duration
	Calm   time.Duration
	Ops    int // about how many
	Faults []FaultKind
	Storms int  // about how many faults
	Habits bool // workers and endpoints misbehave
	HTTP   bool // some jobs have HTTP targets
	Change bool // always around a change of clocks, and most schedules are crons
	Crons  bool // some schedules are crons in zones with daylight saving, around a change
	Kinds  []Weight

	Dated    bool // half the schedules have a calendar
	Sidecars bool // all jobs are those of Dapr, and sidecars take them

	Cluster bool // several nodes, and the faults of a cluster

	// the limits that are set, again and again; half the jobs have the key. nil = 1 to 3, of one job in eight
	Limited []int
	Work    time.Duration // Plan.Work

	FireCritical bool // Plan.FireCritical

	Rated bool // rates are set: of the key of the limit, which half the jobs have, and of namespaces
}

// Weight is how often an operation is drawn.
type Weight struct {
	Kind checker.OpKind
	N    int
}

// everyFault are the faults that the nemesis knows.
var everyFault = []FaultKind{SlowStore, StoreRefuses, LostAcks, ReadsFail, LeasesFail, Kill, Kill, Clock,
	StreamCut, EndpointDown}

// usual are the operations of clients, as often as they are drawn.
var usual = []Weight{
	{checker.Put, 40}, {checker.Patch, 8}, {checker.Delete, 7}, {checker.DeletePrefix, 1}, {checker.Pause, 6},
	{checker.Resume, 6}, {checker.Trigger, 10}, {checker.Cancel, 5}, {checker.Redrive, 4}, {checker.Get, 8},
	{checker.List, 2}, {checker.Skip, 4}, {checker.BatchPut, 3}, {checker.PutNamespace, 2},
	{checker.Backfill, 4}, {checker.BackfillCancel, 2},
}

// The profiles.
var (
	// Chaos is everything.
	Chaos = Profile{Name: "chaos", Busy: 45 * time.Second, Calm: 60 * time.Second, Ops: 90,
		Faults: everyFault, Storms: 7, Habits: true,
		HTTP: true, Crons: true, Kinds: usual}
	// Clocks is Quiet around a change of clocks.
	Clocks = Profile{Name: "clocks", Busy: 30 * time.Second, Calm: 20 * time.Second, Ops: 40, Crons: true,
		Change: true, Kinds: usual}
	// Stops is Quiet with workers that stand still for longer than leases last, beside others that do not.
	Stops = Profile{Name: "stops", Busy: 30 * time.Second, Calm: 40 * time.Second, Ops: 60,
		Faults: []FaultKind{WorkerStops}, Storms: 4, Kinds: usual}
	// Doubts is with writes of which nobody knows whether they were made, beside workers that keep their
	// streams.
	Doubts = Profile{Name: "doubts", Busy: 30 * time.Second, Calm: 40 * time.Second, Ops: 80,
		Faults: []FaultKind{LostAcks}, Storms: 8, Habits: true, Kinds: usual}
	// Pauses is with many pauses, and runs that wait for a permit, on a node that is killed:
	// attempts in doubt are made again long after their job was paused.
	Pauses = Profile{Name: "pauses", Busy: 45 * time.Second, Calm: 60 * time.Second, Ops: 150,
		Faults: []FaultKind{Kill, StreamCut},
		Storms: 12, Habits: true, HTTP: true, Crons: true, Limited: []int{1, 2},
		Kinds: append(slices.Clone(usual), Weight{checker.Pause, 40}, Weight{checker.Resume, 20})}
	// Quiet is without faults: every run is attempted once.
	Quiet = Profile{Name: "quiet", Busy: 30 * time.Second, Calm: 20 * time.Second, Ops: 40, Crons: true,
		HTTP: true, Kinds: usual}
)

// Profiles are all profiles by name.
var Profiles = map[string]Profile{Chaos.Name: Chaos, Quiet.Name: Quiet, Clocks.Name: Clocks,
	Cluster.Name: Cluster, Moves.Name: Moves,
	Permits.Name: Permits, Torn.Name: Torn, Bars.Name: Bars, Ends.Name: Ends, Stops.Name: Stops,
	Sidecars.Name: Sidecars, SidecarsOfACluster.Name: SidecarsOfACluster,
	SidecarsAtEase.Name: SidecarsAtEase, SidecarsMove.Name: SidecarsMove,
	Lapses.Name: Lapses, Doubts.Name: Doubts, Pauses.Name: Pauses, Failovers.Name: Failovers,
	Halts.Name: Halts, HaltsOfACluster.Name: HaltsOfACluster, Dates.Name: Dates,
	DatesOfACluster.Name: DatesOfACluster, Away.Name: Away,
	Rates.Name: Rates, RatesOfACluster.Name: RatesOfACluster}

// jobsPerClient is how many names a client mostly works with. Some names are used by several.
const jobsPerClient = 6

// starts are when runs begin: at plain times, and shortly before clocks change somewhere.
var starts = []time.Time{
	time.Date(2000, 1, 1, 0, 0, 10, 0, time.UTC),
	time.Date(2000, 2, 28, 23, 59, 40, 0, time.UTC),
	time.Date(2000, 3, 26, 0, 59, 40, 0, time.UTC),  // Europe springs forward
	time.Date(2000, 10, 29, 0, 59, 40, 0, time.UTC), // and back
	time.Date(2000, 4, 2, 6, 59, 40, 0, time.UTC),   // New York
}

// zones are the time zones of crons.
var zones = []string{"", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"}

var queues = []string{"red", "blue"}

// Generate draws the plan of a seed.
func (p Profile) Generate(seed uint64) Plan {
	g := &generator{Profile: p, r: rand.New(rand.NewPCG(seed, 0x5eed))}
	plan := Plan{Seed: seed, Profile: p.Name, Busy: p.Busy, Calm: p.Calm, Work: p.Work, Nodes: 1, Partitions: 4,
		Start: starts[0], FireCritical: p.FireCritical}
	plan.Lanes = []int{1, 2, plan.Partitions}[seed%3]
	if p.Change {
		plan.Start = starts[2+g.r.IntN(3)]
	} else if p.Crons {
		plan.Start = starts[g.r.IntN(len(starts))]
	}
	if p.HTTP {
		plan.Endpoints = []string{"hook.test", "other.test"}
	}
	g.plan = &plan
	if p.Dated {
		g.dates()
	}
	if p.Cluster {
		g.cluster()
	}
	g.population()
	slices.SortStableFunc(plan.Ops, func(a, b Op) int { return int(a.At - b.At) })
	if p.Cluster {
		g.clusterFaults()
	} else {
		g.faults()
	}
	return plan
}

// population draws who acts upon the nodes.
func (g *generator) population() {
	client := g.client
	if g.Sidecars {
		client = g.daprClient
		g.sidecars()
	} else {
		g.workers()
	}
	switch {
	case g.Habits && g.Sidecars:
		g.sidecarHabits()
	case g.Habits:
		g.habits()
	}
	for i := range 4 {
		client(i)
	}
}

// consumer draws one of those whose streams are cut.
func (g *generator) consumer() string {
	if g.Sidecars {
		return g.plan.Sidecars[g.r.IntN(4)].Name
	}
	return g.plan.Workers[g.r.IntN(5)].Name
}

// generator draws a plan.
type generator struct {
	Profile
	r        *rand.Rand
	plan     *Plan
	payloads int
}

func (g *generator) between(a, b time.Duration) time.Duration { return between(g.r, a, b) }

func (g *generator) oneIn(n int) bool { return g.r.IntN(n) == 0 }

// pick is one of several things.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (g *generator) workers() {
	p := g.plan
	credits, to, end := 20, p.Busy, p.Busy+p.Calm+afterEnd
	if !g.Habits { // nobody leaves while something may be on its way
		to = end
	}
	if g.Habits && g.oneIn(4) { // so few that runs wait, and are parked
		credits, p.Slots = 1+g.r.IntN(2), 1
	}
	for i := range 3 {
		p.Workers = append(p.Workers, Worker{Name: fmt.Sprintf("worker%d", i), Namespace: "default",
			Queues: queues, Credits: credits,
			To: to, Good: !g.Habits, Near: i == 2, From: g.between(0, 200*time.Millisecond)})
	}
	for i := range 2 {
		p.Workers = append(p.Workers, Worker{Name: fmt.Sprintf("tenant%d", i), Namespace: "tenant",
			Queues: queues, Credits: credits,
			To: to, Good: !g.Habits})
	}
	if g.Habits { // its stream outlives what it has done: what that has left behind is seen
		p.Workers[0].To, p.Workers[0].Reforms = end, p.Busy
	}
	for _, ns := range []string{"default", "tenant"} {
		p.Workers = append(p.Workers, Worker{Name: "last-" + ns, Namespace: ns, Queues: queues,
			Credits: 20, Good: true, From: p.Busy, To: end})
	}
}

// afterEnd is how long after the end of a plan, when every job is deleted, workers are still there.
const afterEnd = 2 * time.Second

func (g *generator) habits() {
	for _, h := range []Habit{
		{Fails, 0.12}, {Permanent, 0.03}, {Later, 0.03}, {Twice, 0.05}, {Hangs, 0.04}, {Crashes,
			0.02}, {Leaves, 0.02}, {MadeUp, 0.03},
		{LongHeartbeats, 0.05}, {Forgets, 0.03}, {Progresses, 0.04}, {Reschedules, 0.04},
		{Answers500, 0.12}, {Answers429, 0.03}, {Answers202, 0.1}, {Answers202No, 0.03}, {Answers410, 0.01},
		{Answers422, 0.03}, {HangsHTTP, 0.03}, {CutsHTTP, 0.05},
	} {
		if !g.oneIn(4) { // a run with few habits goes deeper into them
			h.Share *= 0.5 + g.r.Float64()
			g.plan.Habits = append(g.plan.Habits, h)
		}
	}
}

func (g *generator) faults() {
	p := g.plan
	if g.Storms == 0 {
		return
	}
	kills, clocks := time.Duration(0), time.Duration(0) // ends of the last
	for range 1 + g.r.IntN(2*g.Storms) {
		f := Fault{Kind: pick(g.r, g.Faults...), At: g.between(0, p.Busy-5*time.Second)}
		f.For = g.between(10*time.Millisecond, 5*time.Second)
		switch f.Kind {
		case SlowStore:
			f.Delay = g.between(20*time.Millisecond, 800*time.Millisecond)
		case StoreRefuses, LostAcks, ReadsFail:
			f.Share = 0.1 + 0.6*g.r.Float64()
		case LeasesFail:
			f.Share = 0.3 + 0.7*g.r.Float64()
		case Clock:
			if f.At < clocks {
				continue
			}
			f.Delay, clocks = g.between(-3*time.Second, 3*time.Second), f.At+f.For
		case StreamCut:
			f.Worker, f.For = g.consumer(), 0
		case SidecarHangs:
			f.Worker, f.For = g.consumer(), min(g.between(2*time.Second, 36*time.Second), p.Busy-f.At)
			if slices.ContainsFunc(p.Faults, f.overlaps) {
				continue
			}
		case WorkerStops:
			f.Worker = g.consumer()
			f.For = min(g.between(3*time.Second, 15*time.Second), p.Busy-f.At)
			if slices.ContainsFunc(p.Faults, f.overlaps) {
				continue
			}
		case QueuePaused:
			g.halt(&f)
			if slices.ContainsFunc(p.Faults, f.overlaps) {
				continue
			}
		case EndpointDown:
			if !g.HTTP {
				continue
			}
			f.Worker = pick(g.r, p.Endpoints...)
		case Kill:
			if f.At < kills {
				continue
			}
			kills = f.At + f.For + time.Second
		}
		p.Faults = append(p.Faults, f)
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
}

// client draws the operations of one client.
func (g *generator) client(number int) {
	ops := make([]Op, g.Ops/4)
	for i := range ops {
		at := g.between(0, g.plan.Busy)
		if g.oneIn(3) { // the beginning is busier, so that there is something to act on
			at /= 5
		}
		ops[i] = Op{At: at, Client: number, Kind: g.kind(), Namespace: "default"}
		if number == 3 {
			ops[i].Namespace = "tenant"
		}
	}
	slices.SortStableFunc(ops, func(a, b Op) int { return int(a.At - b.At) })
	seen := map[string]*checker.Job{} // by name: what was put last
	var names, filled []string
	for i := range ops {
		o := &ops[i]
		o.Job = g.name(number)
		switch {
		case i == 0 && g.Rated && number%3 == 0: // from the beginning there are rates
			o.At, o.Kind = 0, checker.PutNamespace
		case o.Kind == checker.Put && i > 0, g.oneIn(8):
		case i == 0:
			o.Kind = checker.Put
		case o.Kind == checker.Backfill && len(names) > 0:
			o.Job = recurring(g.r, names, seen)
			filled = append(filled, o.Job)
		case o.Kind == checker.BackfillCancel && len(filled) > 0:
			o.Job = pick(g.r, filled...)
		case len(names) > 0:
			o.Job = pick(g.r, names...)
		}
		name := o.Job
		g.fill(o)
		if o.Kind == checker.Put {
			seen[name] = o.Spec
			names = append(names, name)
		}
	}
	g.plan.Ops = append(g.plan.Ops, ops...)
}

// recurring is one of the names whose job has a schedule, if there is any.
func recurring(r *rand.Rand, names []string, seen map[string]*checker.Job) string {
	var some []string
	for _, n := range names {
		if seen[n].Schedule != "" {
			some = append(some, n)
		}
	}
	if len(some) == 0 {
		some = names
	}
	return pick(r, some...)
}

// name is a job of the client, or now and then one of its neighbour.
func (g *generator) name(client int) string {
	if g.oneIn(8) {
		client = (client + 1) % 4
	}
	return fmt.Sprintf("c%d/j%d", client, g.r.IntN(jobsPerClient))
}

func (g *generator) kind() checker.OpKind {
	total := 0
	for _, w := range g.Kinds {
		total += w.N
	}
	x := g.r.IntN(total)
	for _, w := range g.Kinds {
		if x -= w.N; x < 0 {
			return w.Kind
		}
	}
	return checker.Get
}

// fill draws what the operation says.
func (g *generator) fill(o *Op) {
	switch o.Kind {
	case checker.Put:
		o.Spec, o.IfAbsent, o.Guarded = g.job(o.At), g.oneIn(10), g.oneIn(10)
	case checker.Patch:
		o.Fields = g.fields()
		o.Spec = only(g.job(o.At), o.Fields)
		o.Guarded = g.oneIn(4)
	case checker.BatchPut:
		names := map[string]bool{}
		for range 2 + g.r.IntN(4) {
			name := fmt.Sprintf("batch%d/j%d", o.Client, g.r.IntN(12))
			if !names[name] {
				names[name] = true
				o.Batch = append(o.Batch, BatchJob{name, g.job(o.At)})
			}
		}
		o.Job = ""
	case checker.DeletePrefix:
		o.Job = pick(g.r, "batch", fmt.Sprintf("c%d/j%d", o.Client, g.r.IntN(jobsPerClient)))
	case checker.List:
		o.Job = pick(g.r, "", "batch", fmt.Sprintf("c%d/", o.Client))
	case checker.Redrive:
		o.Guarded = !g.oneIn(4)
	case checker.Resume:
		o.CatchUp = g.oneIn(2)
	case checker.Backfill:
		o.From, o.To = g.between(5*time.Second, 40*time.Second), g.between(0, 5*time.Second)
		o.Rate = pick(g.r, 0.0, 0, 2, 10)
		if g.oneIn(2) {
			o.Spec = &checker.Job{Overlap: "allow"}
		}
	case checker.PutNamespace:
		o.Job, o.Limits = "", map[string]int{"licence": g.limit()}
		if g.Rated {
			o.Limits, o.Rates = nil, g.rates()
		}
	}
}

// only is a job of which nothing is left but some fields.
func only(j *checker.Job, fields []string) *checker.Job {
	var out checker.Job
	for _, f := range fields {
		switch f {
		case "payload":
			out.Payload = j.Payload
		case "policy":
			out.Policy = j.Policy
		case "priority":
			out.Priority = j.Priority
		case "lease":
			out.Lease = j.Lease
		case "misfire":
			out.Misfire = j.Misfire
		case "queue":
			out.Queue = j.Queue
		}
	}
	return &out
}

// fields are those that a patch names. A patch of the schedule names all that is about time.
func (g *generator) fields() []string {
	return pick(g.r, []string{"payload"}, []string{"payload", "policy"}, []string{"priority"},
		[]string{"lease", "payload"}, []string{"misfire"}, []string{"payload", "queue"},
		[]string{"note"}, []string{})
}
