package sim_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
)

var (
	seeds   = flag.Int("seeds", 300, "how many seeds TestSimulation lives through; a 25th of them with -short")
	first   = flag.Uint64("first", 1, "the first seed; -seeds or -cluster-seeds says how many follow")
	seed    = flag.Uint64("seed", 0, "the one seed to live through; 0 = the first -seeds of them")
	file    = flag.String("plan", "", "a file with the plan to live through instead of the seed's own")
	profile = flag.String("profile", "chaos", "the profile of -seed")
	trace   = flag.String("events", "", "a file to write all that happened under -seed to")
)

// live lives through a plan in a bubble of its own.
func live(t *testing.T, p *sim.Plan, o sim.Options) (h checker.History) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if h, err = sim.Run(p, o); err != nil {
			t.Errorf("seed %d: %v", p.Seed, err)
		}
	})
	return h
}

// each lets f have the numbers from 1 to n, several at a time.
func each(t *testing.T, n int, f func(t *testing.T, i uint64)) {
	t.Helper()
	var next atomic.Uint64
	t.Run("seeds", func(t *testing.T) {
		for k := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(k), func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1); i <= uint64(n); i = next.Add(1) {
					f(t, i)
				}
			})
		}
	})
}

// fewer returns how many seeds a test lives through: n, or a small part of them in the short form. Those are for the
// race detector, which finds the same in each of them.
func fewer(n int) int {
	if testing.Short() {
		return max(1, n/25)
	}
	return n
}

// eachSeed lets f have n seeds from -first on.
func eachSeed(t *testing.T, n int, f func(t *testing.T, seed uint64)) {
	t.Helper()
	each(t, n, func(t *testing.T, i uint64) { f(t, i-1+*first) })
}

// TestSimulation lives through seeds with every fault.
func TestSimulation(t *testing.T) {
	if *seed != 0 {
		one(t, *seed)
		return
	}
	n := fewer(*seeds)
	var sum tally
	eachSeed(t, n, func(t *testing.T, i uint64) {
		p := sim.Chaos.Generate(i)
		h := live(t, &p, sim.Options{})
		v := checker.Check(h, checker.Spec{})
		sum.add(&h, &v)
		if v.Result == checker.Failed {
			t.Errorf("%s%s", v, sum.replay(t, &p, &v))
		}
	})
	t.Log(sum.String())
	if !t.Failed() {
		sum.enough(t, n)
	}
}

// replay says how to live through a plan again. The first that fails is shrunk.
func (s *tally) replay(t *testing.T, p *sim.Plan, v *checker.Verdict) string {
	t.Helper()
	again := fmt.Sprintf("go test ./server/internal/testing/sim -run 'TestSimulation$' -seed %d", p.Seed)
	command := fmt.Sprintf("replay: %s -profile %s\n", again, p.Profile)
	if s.shrunk.Swap(true) {
		return command
	}
	name, err := shrunk(t, p, v)
	if err != nil {
		return command + err.Error()
	}
	return command + fmt.Sprintf("shrunk: %s -plan %s\n", again, name)
}

// shrunk writes what is left of a failing plan to a file, and shows it.
func shrunk(t *testing.T, p *sim.Plan, v *checker.Verdict) (string, error) {
	t.Helper()
	small := sim.Shrink(*p, 400, func(q sim.Plan) bool {
		h := live(t, &q, sim.Options{})
		found := checker.Check(h, checker.Spec{}).Violations
		return slices.ContainsFunc(found, func(x checker.Violation) bool {
			return x.Invariant == v.Violations[0].Invariant
		})
	})
	name := fmt.Sprintf("sim-plan-%d.json", p.Seed)
	f, err := os.Create(filepath.Join(os.TempDir(), name)) //nolint:usetesting // it outlives the test
	if err != nil {
		return "", err
	}
	defer f.Close()
	var text bytes.Buffer
	if err := small.Encode(&text); err != nil {
		return "", err
	}
	t.Logf("what is left of seed %d:\n%s", p.Seed, text.String())
	_, err = f.Write(text.Bytes())
	return f.Name(), err
}

// one lives through a seed or a plan and tells everything.
func one(t *testing.T, seed uint64) {
	p := sim.Profiles[*profile].Generate(seed)
	if *file != "" {
		f, err := os.Open(*file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if p, err = sim.ReadPlan(f); err != nil {
			t.Fatal(err)
		}
	}
	h := live(t, &p, sim.Options{})
	t.Log("trace", sim.Hash(&h))
	if *trace != "" {
		if err := writeLines(*trace, sim.Trace(&h)); err != nil {
			t.Fatal(err)
		}
	}
	v := checker.Check(h, checker.Spec{})
	if v.Result == checker.Failed {
		t.Error(v)
	} else {
		t.Log(v)
	}
}

func writeLines(name string, lines []string) error {
	f, err := os.Create(filepath.Clean(name))
	if err != nil {
		return err
	}
	defer f.Close()
	for _, l := range lines {
		if _, err := fmt.Fprintln(f, l); err != nil {
			return err
		}
	}
	return f.Close()
}

// tally counts what happened in all seeds.
type tally struct {
	shrunk                                             atomic.Bool
	mu                                                 sync.Mutex
	attempts, duplicates, epochs, stale, applied, lost int
	faults                                             map[string]int
	ops                                                map[checker.OpKind]map[checker.Outcome]int
}

func (s *tally) add(h *checker.History, v *checker.Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults == nil {
		s.faults, s.ops = map[string]int{}, map[checker.OpKind]map[checker.Outcome]int{}
	}
	c := &v.Counters
	s.attempts += c.Starts
	s.duplicates += c.Duplicates
	s.epochs += c.Epochs
	s.stale += c.StaleRefused
	s.applied += c.InfoApplied
	s.lost += c.InfoNot
	for i := range h.Faults {
		s.faults[h.Faults[i].Kind]++
	}
	for i := range h.Ops {
		o := &h.Ops[i]
		if s.ops[o.Kind] == nil {
			s.ops[o.Kind] = map[checker.Outcome]int{}
		}
		s.ops[o.Kind][o.Outcome]++
	}
}

func (s *tally) String() string {
	return fmt.Sprintf("%d attempts, %d duplicates, %d epochs, %d stale refused, "+
		"unknown puts: %d applied, %d not\nfaults: %v\noperations: %v",
		s.attempts, s.duplicates, s.epochs, s.stale, s.applied, s.lost, s.faults, s.ops)
}

// enough fails if too little happened for a verdict.
func (s *tally) enough(t *testing.T, n int) {
	t.Helper()
	need := func(what string, have, want int) {
		if have < want {
			t.Errorf("too little happened: %s %d, want %d", what, have, want)
		}
	}
	need("attempts", s.attempts, 40*n)
	need("duplicates", s.duplicates, n)
	need("epochs", s.epochs, n)
	need("stale results and writes", s.stale, n)
	if n < 100 {
		return
	}
	need("unknown puts that were applied", s.applied, 1)
	need("unknown puts that were not", s.lost, n/300) // about one in 80 seeds
	for _, kind := range []sim.FaultKind{sim.SlowStore, sim.StoreRefuses, sim.LostAcks, sim.ReadsFail,
		sim.LeasesFail, sim.Kill, sim.Clock,
		sim.StreamCut, sim.EndpointDown} {
		need("faults of kind "+string(kind), s.faults[string(kind)], n/20)
	}
	for _, w := range sim.Chaos.Kinds {
		need("operations of kind "+string(w.Kind), s.ops[w.Kind][checker.OK], n/20)
	}
}

// TestANodeThatIsDownIsStartedOnce kills a node once more while the store does not let it start: one life
// follows, of which nothing is left in the end.
func TestANodeThatIsDownIsStartedOnce(t *testing.T) {
	p := sim.Quiet.Generate(1)
	p.Faults = []sim.Fault{
		{Kind: sim.Kill, At: 5 * time.Second, For: time.Second},
		{Kind: sim.LeasesFail, At: 5500 * time.Millisecond, For: 3 * time.Second, Share: 1},
		{Kind: sim.Kill, At: 7 * time.Second, For: 500 * time.Millisecond},
	}
	h := live(t, &p, sim.Options{})
	if v := checker.Check(h, checker.Spec{}); v.Result == checker.Failed {
		t.Error(v)
	}
	lives := map[string]bool{}
	for _, c := range h.Claims {
		lives[c.Node] = true
	}
	if len(lives) < 2 {
		t.Errorf("lives: %v", lives)
	}
}

// TestReplay: a seed gives the same run each time, down to tokens and nanoseconds.
func TestReplay(t *testing.T) {
	each(t, fewer(20), func(t *testing.T, i uint64) {
		p := sim.Chaos.Generate(i)
		again(t, &p)
	})
}

// again lives through a plan twice and compares. If the lives differ there is a third, which must be the same as
// the first: where the machine has no time for this process, Go's scheduler takes a goroutine off the processor
// in the middle of something, and another goes first. Over all seeds of a test, what is left to chance shows.
func again(t *testing.T, p *sim.Plan) {
	t.Helper()
	first := live(t, p, sim.Options{})
	var second checker.History
	for range 2 {
		if second = live(t, p, sim.Options{}); sim.Hash(&first) == sim.Hash(&second) {
			return
		}
	}
	one, two := sim.Trace(&first), sim.Trace(&second)
	for k := range min(len(one), len(two)) {
		if one[k] != two[k] {
			t.Errorf("seed %d: line %d is\n%s\nand then\n%s", p.Seed, k, one[k], two[k])
			return
		}
	}
	t.Errorf("seed %d: %d lines, then %d", p.Seed, len(one), len(two))
}

// TestWithoutFaultsEveryRunIsDeliveredOnce is S10 at its sharpest.
func TestWithoutFaultsEveryRunIsDeliveredOnce(t *testing.T) {
	each(t, 50, func(t *testing.T, i uint64) {
		profile := sim.Quiet
		if i%2 == 0 {
			profile = sim.Clocks
		}
		p := profile.Generate(i)
		h := live(t, &p, sim.Options{})
		v := checker.Check(h, checker.Spec{})
		if v.Result == checker.Failed {
			t.Errorf("%s", v)
		}
		for k := range h.Attempts {
			a := &h.Attempts[k]
			// what fences an attempt, or asks for another
			edited := slices.ContainsFunc(h.Ops, func(o checker.Op) bool {
				again := o.Kind == checker.Put || o.Kind == checker.Patch || o.Kind == checker.BatchPut ||
					o.Kind == checker.Redrive
				return again && o.Job == a.Job && o.Namespace == a.Namespace && o.Return.After(a.Scheduled)
			})
			if a.Number != 1 && !edited {
				t.Errorf("seed %d: %+v", i, *a)
			}
		}
	})
}
