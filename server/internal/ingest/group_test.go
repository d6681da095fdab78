package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/message"
)

// fickle is a node that decides at random: it does a command, or leaves it open, or is away for it, or dies after it
// has done it. It remembers what it has done, and in which order.
type fickle struct {
	t *testing.T

	mu     sync.Mutex
	random *rand.Rand
	jobs   map[string][]string // requests that are done, by job
	done   map[string]bool
	groups int
}

func (f *fickle) PartitionOf(k carillon.Key) int { return int(k.Name[len(k.Name)-1]) % 4 }

// decide does a command, or does not; told is false if whoever gave it does not learn that.
func (f *fickle) decide(c *message.Command) (d message.Decision, told bool) {
	if f.done[c.Request] {
		return message.Repeated, true
	}
	if f.random.IntN(3) == 0 {
		return message.Open, true
	}
	f.done[c.Request] = true
	f.jobs[c.Key.Name] = append(f.jobs[c.Key.Name], c.Request)
	return message.Done, f.random.IntN(4) != 0
}

func (f *fickle) Do(_ context.Context, c message.Command) (before bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch d, told := f.decide(&c); {
	case d == message.Open || !told:
		return false, carillon.Errorf(carillon.Unavailable, "", "the store is away")
	default:
		return d == message.Repeated, nil
	}
}

func (f *fickle) DoAll(_ context.Context, p int, all []message.Command) ([]message.Decision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.groups++
	decided := make([]message.Decision, len(all))
	names := map[string]bool{}
	for i := range all {
		if at := f.PartitionOf(all[i].Key); at != p {
			f.t.Errorf("a command of partition %d is in a group of %d", at, p)
		}
		if names[all[i].Key.Name] {
			f.t.Errorf("two commands of the job %s are in one group", all[i].Key.Name)
		}
		names[all[i].Key.Name] = true
		if d, told := f.decide(&all[i]); told {
			decided[i] = d
		}
	}
	if n := len(all); n > message.MaxCommands {
		f.t.Errorf("a group has %d commands", n)
	}
	if f.random.IntN(8) == 0 {
		return nil, carillon.Errorf(carillon.Unavailable, "", "the answer is lost")
	}
	return decided[:f.random.IntN(len(decided)+1)], nil // an older node says less
}

// TestWhatComesTogether: whatever becomes of groups, each message is done once and acknowledged once, and the
// commands of a job in their order. Some messages are given to somebody else before they begin.
func TestWhatComesTogether(t *testing.T) {
	groups := 0
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) { groups += doTogether(t, rand.New(rand.NewPCG(seed, 1))) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if groups < 100 {
		t.Errorf("there were %d groups", groups)
	}
}

// doTogether returns how many groups there were.
func doTogether(t *testing.T, random *rand.Rand) int {
	to := &fickle{t: t, random: rand.New(rand.NewPCG(random.Uint64(), 2)), jobs: map[string][]string{},
		done: map[string]bool{}}
	source := &given{in: make(chan []*broker.Delivery)}
	counted := 0
	g := startGiven(t, to, 1+random.IntN(600), map[string]*given{"topic": source}, &given{}, func(o Outcome) {
		to.mu.Lock()
		defer to.mu.Unlock()
		if o == Done || o == Repeated {
			counted++
		}
	})
	most := 1 + random.IntN(600)
	ended, lost, wanted := make([]int, most), 0, map[string][]string{}
	names := 1 + random.IntN(most)
	var all []*broker.Delivery
	for i := range most {
		name := fmt.Sprint("job", random.IntN(names))
		d := source.delete(name, i)
		gone := random.IntN(20) == 0
		d.Begin = func() bool { return !gone }
		d.Done = func() {
			to.mu.Lock()
			defer to.mu.Unlock()
			ended[i]++
		}
		d.Release = d.Done
		if all = append(all, d); gone {
			lost++
			continue
		}
		wanted[name] = append(wanted[name], requestOf(&event{source: "/test", id: fmt.Sprint(i)}))
	}
	for len(all) > 0 {
		n := 1 + random.IntN(len(all))
		source.in <- all[:n]
		all = all[n:]
	}
	<-time.After(time.Hour)
	g.Close(t.Context())
	for i, n := range ended {
		if n != 1 {
			t.Errorf("message %d has ended %d times", i, n)
		}
	}
	if counted != most-lost {
		t.Errorf("%d of %d messages are counted", counted, most-lost)
	}
	for name, want := range wanted {
		if got := to.jobs[name]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("of %s are done %v, not %v", name, got, want)
		}
	}
	return to.groups
}
