package sim

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// The profiles with rates, of a concurrency key and of namespaces, so low that runs wait for them. There are
// no wrong clocks: a new home of a rate goes by UTC for what has come in, and two clocks may differ by 2 s.
var (
	// Rates is a node that is killed, and whose store fails.
	Rates = Profile{Name: "rates", Busy: 45 * time.Second, Calm: 60 * time.Second, Ops: 100, Storms: 5,
		Habits: true, HTTP: true, Kinds: rating, Rated: true,
		Faults: []FaultKind{SlowStore, StoreRefuses, LostAcks, ReadsFail, LeasesFail, Kill, Kill, StreamCut}}
	// RatesOfACluster is several nodes that come, leave, stand still and are cut off.
	RatesOfACluster = Profile{Name: "ratesofacluster", Busy: 40 * time.Second, Calm: 60 * time.Second, Ops: 100,
		Storms: 5, Habits: true, HTTP: true, Kinds: rating, Rated: true, Cluster: true,
		Faults: []FaultKind{Cut, CutStore, Halt, Kill, Kill, Departs, Departs, SlowStore, StoreRefuses, LostAcks,
			LeasesFail, StreamCut}}
)

// rating are the operations of clients where it is rates that are of interest. Rates are seldom changed: a
// stretch in which one is surely in force begins some seconds later.
var rating = []Weight{{checker.Put, 50}, {checker.Patch, 3}, {checker.Delete, 6}, {checker.Pause, 2},
	{checker.Resume, 3}, {checker.Trigger, 30}, {checker.Cancel, 4}, {checker.Get, 2}, {checker.BatchPut, 3},
	{checker.PutNamespace, 1}}

// rates draws the rates of a namespace: of the key in any case, of all else in half of the draws.
func (g *generator) rates() map[string]checker.Rate {
	all := map[string]checker.Rate{"licence": {Count: 1 + g.r.IntN(4),
		Period: pick(g.r, time.Second, 3*time.Second), Burst: 1 + g.r.IntN(4)}}
	if g.oneIn(2) {
		all[""] = checker.Rate{Count: 3 + g.r.IntN(4), Period: time.Second, Burst: 1 + g.r.IntN(6)}
	}
	return all
}

// settings are those of a namespace that the operation puts.
func (o *Op) settings() carillon.Namespace {
	ns := carillon.Namespace{Name: o.Namespace, ConcurrencyLimits: o.Limits}
	for key, r := range o.Rates {
		rate := carillon.Rate{Count: int64(r.Count), Period: r.Period, Burst: int64(r.Burst)}
		if key == "" {
			ns.Quotas.Runs = rate
			continue
		}
		if ns.RateLimits == nil {
			ns.RateLimits = map[string]carillon.Rate{}
		}
		ns.RateLimits[key] = rate
	}
	return ns
}
