package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// together has a node do commands together, each in its partition, and those that are left open alone. It returns
// what came of each, and how many were left open.
func (n *node) together(all []message.Command) (told []string, open int) {
	ctx := context.Background()
	told = make([]string, len(all))
	parts := map[int][]int{}
	for i := range all {
		p := store.PartitionOf(all[i].Key, 5)
		parts[p] = append(parts[p], i)
	}
	for p := range 5 {
		group := message.Commands{}
		for _, i := range parts[p] {
			group.Commands = append(group.Commands, all[i])
		}
		decided, err := message.Send(ctx, n.Engine, p, group)
		for k, i := range parts[p] {
			if err == nil && decided[k] != message.Open {
				told[i] = fmt.Sprint(decided[k] == message.Repeated, nil)
				continue
			}
			open++
			before, err := message.Send(ctx, n.Engine, p, all[i])
			told[i] = fmt.Sprint(before, carillon.KindOf(err))
			if err == nil {
				told[i] = fmt.Sprint(before, nil)
			}
		}
	}
	return told, open
}

// drawn draws a command about one of a few jobs; it may be one that came before, or one that cannot be done.
func drawn(r *rand.Rand, of *[]message.Command, name string) message.Command {
	key := carillon.Key{Namespace: "default", Name: name}
	for _, c := range *of {
		if c.Key == key && r.IntN(4) == 0 {
			return c
		}
	}
	c := message.Command{Request: fmt.Sprint("r", len(*of)), Key: key, KeepFor: time.Hour}
	job := &carillon.Job{Due: carillon.In(1000 * time.Hour), Target: carillon.WorkerQueue("q"),
		Note: c.Request}
	switch r.IntN(12) {
	case 0, 1, 2:
		c.Job = job
	case 3, 4:
		c.Job, c.IfAbsent = job, true
	case 5:
		c.Job, c.IfGeneration = job, 1+r.Uint64N(3)
	case 6:
		c.Job = job
		c.Job.DependsOn = []string{"job0"}
	case 7:
		c.Job = &carillon.Job{} // it has no target
	case 8, 9:
		c.Trigger = &carillon.TriggerOptions{}
	case 10:
		c.IfGeneration = r.Uint64N(3)
	}
	*of = append(*of, c)
	return c
}

// TestCommandsThatCameTogether end as they would one after the other: what each is answered, and what is there
// in the end.
func TestCommandsThatCameTogether(t *testing.T) {
	all, open := 0, 0
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 5))
			one := start(t, memory.New(memory.Options{Partitions: 5}))
			other := start(t, memory.New(memory.Options{Partitions: 5}))
			var given []message.Command
			for range 8 {
				var group []message.Command
				for i := range 30 { // of different jobs, as ingest has it
					if r.IntN(2) == 0 {
						group = append(group, drawn(r, &given, fmt.Sprint("job", i)))
					}
				}
				got, alone := one.together(group)
				all, open = all+len(group), open+alone
				for i, c := range group {
					before, err := message.Send(context.Background(), other.Engine, store.PartitionOf(c.Key, 5), c)
					want := fmt.Sprint(before, nil)
					if err != nil {
						want = fmt.Sprint(before, carillon.KindOf(err))
					}
					if got[i] != want {
						t.Errorf("seed %d: %+v: %s together, %s alone", seed, c, got[i], want)
					}
				}
			}
			for i := range 30 {
				name := fmt.Sprint("job", i)
				if a, b := stateOf(t, one, name), stateOf(t, other, name); a != b {
					t.Errorf("seed %d: %s: %s together, %s alone", seed, name, a, b)
				}
			}
			one.stop()
			other.stop()
		})
	}
	if open*2 > all || open == 0 {
		t.Errorf("%d of %d commands were left open", open, all)
	}
}

// stateOf is what commands change of a job.
func stateOf(t *testing.T, n *node, name string) string {
	t.Helper()
	j, err := n.GetJob(context.Background(), carillon.Key{Namespace: "default", Name: name})
	if err != nil {
		return carillon.KindOf(err).String()
	}
	return fmt.Sprint(j.Note, j.Status.Generation, len(j.Status.Pending), j.DependsOn)
}

// TestCommandsTogetherSurviveACrash: a node crashes at each write in turn, with the write applied and without. What
// was answered as done is there; when all come again, each is done once.
func TestCommandsTogetherSurviveACrash(t *testing.T) {
	for _, lands := range []bool{false, true} {
		for left, cutOff := 1, true; cutOff; left++ {
			synctest.Test(t, func(t *testing.T) { cutOff = togetherWithCrash(t, left, lands) })
			if left > 60 {
				t.Fatal("the commands take more than 60 writes")
			}
		}
	}
}

func togetherWithCrash(t *testing.T, left int, lands bool) (cutOff bool) {
	t.Helper()
	c := &crashes{memory.New(memory.Options{Partitions: 5}), t, 1}
	var all []message.Command
	for i := range 20 {
		all = append(all, message.Command{Request: fmt.Sprint("put", i), KeepFor: time.Hour,
			Key: carillon.Key{Namespace: "default", Name: fmt.Sprint("job", i)},
			Job: &carillon.Job{Due: carillon.In(1000 * time.Hour), Target: carillon.WorkerQueue("q")}})
	}
	parts := map[int][]message.Command{}
	for _, m := range all {
		p := store.PartitionOf(m.Key, 5)
		parts[p] = append(parts[p], m)
	}
	ask := func(n *node, p int) []message.Decision {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		decided, err := message.Send(ctx, n.Engine, p, message.Commands{Commands: parts[p]})
		if err != nil {
			return make([]message.Decision, len(parts[p]))
		}
		return decided
	}
	first := map[int][]message.Decision{}
	cutOff = c.live(left, lands, 0, func(n *node) {
		for p := range 5 {
			first[p] = ask(n, p)
		}
	})
	n := start(t, c.disk)
	for p := range 5 {
		for i, d := range ask(n, p) {
			if d == message.Open || first[p][i] == message.Done && d != message.Repeated {
				t.Errorf("left %d, %v: %s: %d, and when it comes again %d", left, lands, parts[p][i].Request, first[p][i], d)
			}
		}
		for i, d := range ask(n, p) {
			if d != message.Repeated {
				t.Errorf("left %d, %v: %s comes a third time: %d", left, lands, parts[p][i].Request, d)
			}
		}
	}
	for _, m := range all {
		if j, err := n.GetJob(context.Background(), m.Key); err != nil || j.Status.Generation != 1 {
			t.Errorf("left %d, %v: %s: %+v, %v", left, lands, m.Key.Name, j.Status, err)
		}
	}
	n.stop()
	return cutOff
}

// TestCommandsThatAreNotDoneTogether are left open: those of another partition, completions, refusals, those
// whose request or time is not valid. Too many are refused.
func TestCommandsThatAreNotDoneTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 5}))
		key := carillon.Key{Namespace: "default", Name: "a"}
		p := store.PartitionOf(key, 5)
		good := message.Command{Request: "r", Key: key, KeepFor: time.Hour}
		for name, change := range map[string]func(c *message.Command){
			"no request":  func(c *message.Command) { c.Request = "" },
			"a long time": func(c *message.Command) { c.KeepFor = message.MaxKeepFor + 1 },
			"a name":      func(c *message.Command) { c.Key.Name = "" },
			"a refusal":   func(c *message.Command) { c.Refusal = &carillon.Error{Kind: carillon.InvalidArgument} },
			"a result":    func(c *message.Command) { c.Complete = &carillon.Result{Token: "t"} },
		} {
			c := good
			change(&c)
			decided, err := message.Send(context.Background(), n.Engine, p, message.Commands{Commands: []message.Command{c}})
			if err != nil || len(decided) != 1 || decided[0] != message.Open {
				t.Errorf("%s: %v, %v", name, decided, err)
			}
		}
		other := message.Commands{Commands: []message.Command{good}}
		if decided, err := message.Send(context.Background(), n.Engine, (p+1)%5, other); err != nil ||
			decided[0] != message.Open {
			t.Errorf("of another partition: %v, %v", decided, err)
		}
		many := message.Commands{Commands: make([]message.Command, message.MaxCommands+1)}
		if _, err := message.Send(context.Background(), n.Engine, p, many); carillon.KindOf(err) != carillon.InvalidArgument {
			t.Errorf("too many: %v", err)
		}
		n.stop()
	})
}
