package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// The profiles of Dapr's sidecars.
var (
	// Sidecars is a node whose jobs are all Dapr's, put by its face and taken by streams of sidecars.
	Sidecars = Profile{Name: "sidecars", Busy: 45 * time.Second, Calm: 60 * time.Second, Ops: 90,
		Faults: []FaultKind{SlowStore, StoreRefuses, LostAcks, ReadsFail, LeasesFail, Kill, Kill, Clock,
			StreamCut, StreamCut, SidecarHangs},
		Storms: 7, Habits: true, Sidecars: true, Kinds: daprKinds}
	// SidecarsOfACluster is the same on several nodes.
	SidecarsOfACluster = Profile{Name: "sidecarcluster", Busy: 40 * time.Second, Calm: 90 * time.Second,
		Ops: 80, Storms: 6, Habits: true, Sidecars: true, Kinds: daprKinds, Cluster: true,
		Faults: []FaultKind{Cut, CutStore, CutStore, Halt, Halt, Kill, Kill, Kill, Departs, Departs, Clock,
			SlowStore, StoreRefuses, LostAcks, ReadsFail, LeasesFail, StreamCut, StreamCut, SidecarHangs}}
	// SidecarsMove is several nodes that come and leave in order, and in which nothing else goes wrong but
	// sidecars: what their streams have stays with them however long it takes.
	SidecarsMove = Profile{Name: "sidecarsmove", Busy: 40 * time.Second, Calm: 80 * time.Second, Ops: 80,
		Storms: 4, Habits: true, Sidecars: true, Kinds: daprKinds, Cluster: true, Faults: []FaultKind{Departs}}
	// SidecarsAtEase is Sidecars without faults: every run is delivered once.
	SidecarsAtEase = Profile{Name: "sidecarsatease", Busy: 30 * time.Second, Calm: 20 * time.Second, Ops: 50,
		Sidecars: true, Kinds: daprKinds}
)

// daprKinds are what sidecars ask for.
var daprKinds = []Weight{{checker.Put, 60}, {checker.Delete, 10}, {checker.DeletePrefix, 2},
	{checker.Get, 12}}

// targets are what jobs of Dapr are for, as the first levels of their names.
var targets = []string{"dapr/app/shop/", "dapr/app/billing/", "dapr/actor/Cart/1/", "dapr/actor/Cart/2/",
	"dapr/actor/Order/1/", "dapr/actor/Order/2/"}

// sidecars draws the sidecars.
func (g *generator) sidecars() {
	p := g.plan
	end := p.Busy + p.Calm + afterEnd
	var limits []SidecarLimit
	if g.oneIn(2) {
		limits = append(limits, SidecarLimit{Type: "Cart", Most: 1 + g.r.IntN(2)})
	}
	if g.oneIn(2) {
		limits = append(limits, SidecarLimit{Type: "Order", Key: "till", Most: 1 + g.r.IntN(2)})
	}
	add := func(name, namespace, app string, good bool, from, to time.Duration, types ...string) {
		p.Sidecars = append(p.Sidecars, Sidecar{Name: name, Namespace: namespace, AppID: app,
			Types: types, Limits: limits, Good: good || !g.Habits, From: from, To: to})
	}
	add("shop0", "default", "shop", false, g.between(0, 2*time.Second), end, "Cart", "Order")
	add("shop1", "default", "shop", false, g.between(0, 8*time.Second), p.Busy, "Cart")
	add("billing0", "default", "billing", false, 0, p.Busy, "Order")
	add("tenant0", "tenant", "shop", false, 0, p.Busy, "Cart", "Order")
	if g.Habits { // one holds what it forgets, or what lasts, until its stream ends with it
		p.Sidecars[0].To, p.Sidecars[0].Reforms = p.Busy+30*time.Second, p.Busy
	}
	from := p.Busy
	if !g.Habits {
		from = 0
	}
	add("last-shop", "default", "shop", true, from, end, "Cart", "Order")
	add("last-billing", "default", "billing", true, from, end, "Cart", "Order")
	add("last-tenant-shop", "tenant", "shop", true, from, end, "Cart", "Order")
	add("last-tenant-billing", "tenant", "billing", true, from, end, "Cart", "Order")
	if !g.Habits {
		for i := range p.Sidecars {
			p.Sidecars[i].To = end
		}
	}
}

// sidecarHabits draws what goes wrong with runs of sidecars.
func (g *generator) sidecarHabits() {
	for _, h := range []Habit{{Fails, 0.15}, {Hangs, 0.12}, {Forgets, 0.04}, {Lasts, 0.03}, {Twice, 0.02},
		{MadeUp, 0.01}, {Leaves, 0.03}, {Crashes, 0.03}} {
		if !g.oneIn(4) {
			h.Share *= 0.5 + g.r.Float64()
			g.plan.Habits = append(g.plan.Habits, h)
		}
	}
}

// daprClient draws the operations of one client.
func (g *generator) daprClient(number int) {
	ops := make([]Op, g.Ops/4)
	for i := range ops {
		at := g.between(0, g.plan.Busy)
		if g.oneIn(3) {
			at /= 5
		}
		ops[i] = Op{At: at, Client: number, Kind: g.kind(), Namespace: "default"}
		if number == 3 {
			ops[i].Namespace = "tenant"
		}
	}
	slices.SortStableFunc(ops, func(a, b Op) int { return int(a.At - b.At) })
	var names []string
	for i := range ops {
		o := &ops[i]
		o.Job = g.daprName(number)
		if len(names) > 0 && g.oneIn(2) { // what is there
			o.Job = pick(g.r, names...)
		}
		switch o.Kind {
		case checker.Put:
			o.IfAbsent, o.Spec = g.oneIn(4), g.daprJob(o.Job, o.At)
			names = append(names, o.Job)
		case checker.DeletePrefix:
			o.Job = pick(g.r, targets...) + fmt.Sprintf("c%d-", number)
		}
	}
	g.plan.Ops = append(g.plan.Ops, ops...)
}

// daprName is a job of the client, or now and then one of its neighbour.
func (g *generator) daprName(client int) string {
	if g.oneIn(8) {
		client = (client + 1) % 4
	}
	return pick(g.r, targets...) + fmt.Sprintf("c%d-j%d", client, g.r.IntN(2))
}

// daprJob draws a job of Dapr.
func (g *generator) daprJob(name string, at time.Duration) *checker.Job {
	g.payloads++
	t, _ := targetOf(name)
	j := &checker.Job{Payload: fmt.Sprintf("p%d", g.payloads), Queue: queueOf(&t), Policy: g.daprPolicy()}
	if t.ActorType == "Order" && g.oneIn(2) {
		j.ConcurrencyKey = "till"
	}
	switch g.r.IntN(5) {
	case 0, 1:
		j.Schedule = fmt.Sprintf("@every %ds", 2+g.r.IntN(9))
	case 2:
		j.Schedule = pick(g.r, "*/5 * * * * *", "*/7 * * * * *", "3/10 * * * * *", "1,31 * * * * *")
	default:
		if g.oneIn(4) {
			j.Due = g.plan.Start.Add(at + g.between(-5*time.Second, 15*time.Second)).UTC()
		} else {
			j.Relative, j.DueIn = true, g.between(0, 15*time.Second)
		}
		return j
	}
	j.Literal, j.Misfire, j.CatchUpLimit = true, "all", 10_000
	if g.oneIn(3) {
		j.Relative, j.DueIn = true, g.between(0, 8*time.Second)
	}
	if g.oneIn(4) {
		j.Repeats = uint64(1 + g.r.IntN(6))
	}
	if g.oneIn(6) && j.Schedule[0] != '1' { // none that ends before its first run
		j.TTL = g.between(12*time.Second, 40*time.Second)
	}
	return j
}

func (g *generator) daprPolicy() checker.Policy {
	retries := g.r.IntN(5)
	p := checker.Policy{Kind: "constant", Interval: g.between(0, 4*time.Second), MaxRetries: &retries,
		OnExhausted: "drop"}
	switch g.r.IntN(5) {
	case 0:
		return checker.Policy{Kind: "drop", OnExhausted: "drop"}
	case 1: // what goes without saying
		retries = 3
		p.Interval = time.Second
	case 2: // without an end
		p.MaxRetries = nil
		p.Interval += 500 * time.Millisecond
	case 3:
		p.Interval = 0
	}
	return p
}
