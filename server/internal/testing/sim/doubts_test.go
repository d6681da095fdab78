package sim_test

import (
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
)

// TestDoubtsLeaveNothingBehind: attempts are in doubt on a node that lives on, so that a worker may get one
// twice on one stream.
func TestDoubtsLeaveNothingBehind(t *testing.T) {
	n := fewer(*seeds / 5)
	twice := make([]int, n+1)
	eachSeed(t, n, func(t *testing.T, i uint64) {
		p := sim.Doubts.Generate(i)
		h := live(t, &p, sim.Options{})
		if v := checker.Check(h, checker.Spec{}); v.Result == checker.Failed {
			t.Errorf("%s", v)
		}
		had := map[string]string{}
		for k := range h.Attempts {
			if a := &h.Attempts[k]; had[a.Token] == a.Worker {
				twice[i-*first+1]++
			} else {
				had[a.Token] = a.Worker
			}
		}
	})
	sum := 0
	for _, k := range twice {
		sum += k
	}
	if n >= 10 && sum < n/10 {
		t.Errorf("%d attempts that a worker got twice in %d seeds show nothing", sum, n)
	}
	t.Logf("%d attempts that a worker got twice", sum)
}

// TestAPauseFindsWhatIsInDoubt: what a killed node may have handed out is made again though its job was
// paused since, and nothing else begins in a pause.
func TestAPauseFindsWhatIsInDoubt(t *testing.T) {
	n := fewer(*seeds / 5)
	excused := make([]int, n+1)
	eachSeed(t, n, func(t *testing.T, i uint64) {
		p := sim.Pauses.Generate(i)
		h := live(t, &p, sim.Options{})
		if v := checker.Check(h, checker.Spec{}); v.Result == checker.Failed {
			t.Errorf("%s", v)
		}
		for k := range h.Attempts {
			h.Attempts[k].InDoubt = 0
		}
		for k := range h.Final.Runs {
			h.Final.Runs[k].InDoubt = 0
		}
		v := checker.Check(h, checker.Spec{})
		for _, x := range v.Violations {
			if x.Invariant == "S2" {
				excused[i-*first+1]++
			}
		}
	})
	sum := 0
	for _, k := range excused {
		sum += k
	}
	if n >= 100 && sum == 0 {
		t.Errorf("no run in %d seeds that began in a pause since it was in doubt: they show nothing", n)
	}
	t.Logf("%d runs in doubt began in a pause", sum)
}
