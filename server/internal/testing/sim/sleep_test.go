package sim_test

import (
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
)

// TestStoppedWorkers: workers stand still for longer than leases last and keep their streams, beside others.
func TestStoppedWorkers(t *testing.T) {
	n := fewer(*seeds / 5)
	begun, lost := make([]int, n+1), make([]int, n+1)
	eachSeed(t, n, func(t *testing.T, i uint64) {
		p := sim.Stops.Generate(i)
		h := live(t, &p, sim.Options{})
		if v := checker.Check(h, checker.Spec{Admin: 1e9}); v.Result == checker.Failed {
			t.Errorf("%s", v)
		}
		at := (i - *first) + 1
		begun[at] = len(h.Begins)
		for k := range h.Attempts {
			if h.Attempts[k].Number > 1 {
				lost[at]++
			}
		}
	})
	late, again := 0, 0
	for i := range begun {
		late, again = late+begun[i], again+lost[i]
	}
	if n >= 10 && again < n/2 {
		t.Errorf("%d attempts after a lost one in %d seeds show nothing", again, n)
	}
	t.Logf("%d attempts after a lost one, %d begun late", again, late)
}

func TestReplayOfStoppedWorkers(t *testing.T) {
	each(t, fewer(10), func(t *testing.T, i uint64) {
		p := sim.Stops.Generate(i)
		again(t, &p)
	})
}

// sleepMutants are bugs that show when workers are stopped.
var sleepMutants = []mutant{
	{"a silent worker gets more", sim.Stops, []string{"S15"}, func(*sim.Plan) sim.Mutant {
		return sim.Mutant{Dispatcher: func(d engine.Dispatcher) engine.Dispatcher { return credulousOfSilence{d} }}
	}},
	{"an attempt is confirmed whose lease has ended", sim.Stops,
		[]string{"S15"}, sink(func(s dispatch.Sink) dispatch.Sink {
			return agreeable{s}
		})},
}

// credulousOfSilence does not say that an attempt has ended because nothing was heard of it.
type credulousOfSilence struct{ engine.Dispatcher }

// Cancel is for [engine.Dispatcher].
func (d credulousOfSilence) Cancel(cs []delivery.Cancel) {
	cs = slices.Clone(cs)
	for i := range cs {
		cs[i].Unheard = false
	}
	d.Dispatcher.Cancel(cs)
}

// agreeable confirms every attempt.
type agreeable struct{ dispatch.Sink }

// Heartbeats is for [dispatch.Sink].
func (s agreeable) Heartbeats(bs []carillon.Heartbeat, from delivery.Reporter) {
	for _, b := range bs {
		if b.Confirm {
			from.(delivery.Confirmer).Confirmed(b.Token)
		}
	}
	s.Sink.Heartbeats(bs, from)
}
