package engine_test

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store/memory"
)

// mayMake checks that so many changes of a namespace may still be made.
func (n *node) mayMake(namespace string, want int) {
	n.t.Helper()
	for i := range want + 1 {
		_, err := n.PutJob(context.Background(), carillon.Job{Namespace: namespace, Name: fmt.Sprint("left", i),
			Due: carillon.In(24 * time.Hour), Target: carillon.WorkerQueue("q")})
		if refused := carillon.KindOf(err) == carillon.ResourceExhausted; refused != (i == want) {
			n.t.Errorf("of %d changes, the one after %d: %v", want, i, err)
			return
		}
	}
}

func (n *node) putRate(namespace string, burst int64) {
	n.t.Helper()
	if _, err := n.PutNamespace(context.Background(), carillon.Namespace{Name: namespace,
		Quotas: carillon.Quotas{Puts: carillon.Rate{Count: 1, Period: 24 * time.Hour, Burst: burst}}}); err != nil {
		n.t.Fatal(err)
	}
}

// TestACommandCountsOnce: also one that is left open in a group, and given alone then.
func TestACommandCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 5}))
		n.put(carillon.Job{Name: "there", Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")})
		n.putRate("default", 10)
		job := func() *carillon.Job {
			return &carillon.Job{Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}
		}
		command := func(name string, j *carillon.Job) message.Command {
			return message.Command{Request: "of " + name, KeepFor: time.Hour, Job: j,
				Key: carillon.Key{Namespace: "default", Name: name}}
		}
		exists := command("there", job())
		exists.IfAbsent = true // the round leaves it open
		wrong := command("b", job())
		wrong.Job.Schedule = "never" // what comes before the round does
		told, open := n.together([]message.Command{command("a", job()), exists, wrong})
		if want := 2; open != want {
			t.Errorf("%d of %d were left open, want %d: %v", open, len(told), want, told)
		}
		n.mayMake("default", 10-3)
		n.stop()
	})
}

// TestABatchCountsWhole: one that is refused for one of its namespaces counts in none, and events on their way
// to webhooks are no changes.
func TestABatchCountsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, n := context.Background(), start(t, memory.New(memory.Options{Partitions: 5}))
		n.putRate("few", 1)
		n.putRate("a", 5)
		in := func(namespace, name string) carillon.Job {
			return carillon.Job{Namespace: namespace, Name: name, Due: carillon.In(time.Hour),
				Target: carillon.WorkerQueue("q")}
		}
		_, err := n.PutJobs(ctx, []carillon.Job{in("a", "1"), in("a", "2"), in("few", "1"), in("few", "2")})
		over(t, err, "quotas.puts", "2 changes at once are more than the burst")
		n.mayMake("a", 5)
		if _, err := n.PutJobs(ctx, []carillon.Job{in("few", "1"), in("few", carillon.EventJobs+"1"),
			in("few", carillon.EventJobs+"2")}); err != nil {
			t.Error(err)
		}
		n.mayMake("few", 0)
		n.stop()
	})
}

// TestABatchThatIsNotPutLeavesRoom: whenever its caller leaves, what was set aside for a batch is free at once,
// unless the batch is put.
func TestABatchThatIsNotPutLeavesRoom(t *testing.T) {
	for name, lanes := range map[string]int{"in a group": 1, "with an intent": 5} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const quota, most = 4, 60
				var left, enters atomic.Int64
				leave := func() {}
				s := memory.New(memory.Options{Partitions: 5})
				n := startWith(t, engine.Config{Store: s, Lanes: lanes, Enter: func(_ context.Context, _ int, of string) {
					if enters.Add(1) == left.Load() {
						leave()
					}
				}})
				putQuotas(t, n, carillon.Quotas{Jobs: quota})
				batch := func(ctx context.Context) error {
					var jobs []carillon.Job
					for i := range quota {
						jobs = append(jobs, shopJob(i))
					}
					_, err := n.PutJobs(ctx, jobs)
					return err
				}
				stage := 1
				for ; stage <= most; stage++ {
					ctx, cancel := context.WithCancel(context.Background())
					leave = cancel
					enters.Store(0)
					left.Store(int64(stage))
					err := batch(ctx)
					left.Store(0)
					cancel()
					time.Sleep(5 * time.Second) // less than a minute
					if err == nil {
						break
					}
					if has := shopHas(t, s).Jobs; has != 0 && has != quota {
						t.Fatalf("left at %d: it has %d jobs", stage, has)
					}
					if err := batch(context.Background()); err != nil {
						t.Errorf("left at %d: %v", stage, err)
					}
					if _, err := n.DeleteJobs(context.Background(), "shop", "j"); err != nil {
						t.Fatal(err)
					}
				}
				if stage < 5 || stage > most {
					t.Errorf("it was left at %d stages", stage-1)
				}
				n.stop()
			})
		})
	}
}

// TestRefusalsAreCounted by namespace and quota, each change once.
func TestRefusalsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, refused := context.Background(), map[string]int{}
		n := startWith(t, engine.Config{Store: memory.New(memory.Options{Partitions: 5}),
			Events: engine.Events{QuotaRefused: func(namespace, quota string) { refused[namespace+" "+quota]++ }}})
		putQuotas(t, n, carillon.Quotas{Jobs: 1})
		n.putRate("few", 1)
		for i := range 3 {
			_, err := n.PutJob(ctx, shopJob(i))
			if (err != nil) != (i > 0) {
				t.Errorf("job %d: %v", i, err)
			}
		}
		n.mayMake("few", 1)
		if want := map[string]int{"shop jobs": 2, "few puts": 1}; !maps.Equal(refused, want) {
			t.Errorf("counted %v, want %v", refused, want)
		}
		n.stop()
	})
}
