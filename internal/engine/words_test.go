package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store/memory"
)

// TestWordsBesideAResult: the result is reported a second time. Its outcome is the answer to all of them,
// even if they are relayed to another node in other parts. Their run has ended, but nobody is told that they
// are stale.
func TestWordsBesideAResult(t *testing.T) {
	large := strings.Repeat("x", 1<<18)
	for name, say := range map[string]func(e *engine.Engine, v *verdicts, token string){
		"a beat": func(e *engine.Engine, v *verdicts, token string) {
			e.Heartbeats([]carillon.Heartbeat{{Token: token}}, v)
			e.Reports([]partition.Report{{From: v, Result: carillon.Result{Token: token, Outcome: carillon.OutcomeSuccess}}})
		},
		"a beat beside a large one": func(e *engine.Engine, v *verdicts, token string) {
			e.Heartbeats([]carillon.Heartbeat{{Token: token}}, v)
			e.Reports([]partition.Report{{From: v, Result: carillon.Result{Token: token, Outcome: carillon.OutcomeSuccess, Message: large}}})
		},
		"progress": func(e *engine.Engine, v *verdicts, token string) {
			e.Reports([]partition.Report{
				{From: v, Result: carillon.Result{Token: token, Outcome: carillon.OutcomeProgress}},
				{From: v, Result: carillon.Result{Token: token, Outcome: carillon.OutcomeSuccess}},
			})
		},
	} {
		for owner, where := range []string{"to the owner", "to another node"} {
			t.Run(name+", "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const runs = 20
					var held atomic.Pointer[chan struct{}]
					f, streams := startStreams(t, 2, func(c *engine.Config) {
						c.Turn = func(int) {
							if until := held.Load(); until != nil {
								<-*until
							}
						}
					})
					putDapr(t, f.nodes[0].Engine, runs)
					time.Sleep(3 * time.Second)
					ds := streams[0].take()
					f.moves(owner)
					e := f.nodes[0].Engine
					if v := succeed(e, ds); v.accepted != runs || v.stale != 0 {
						t.Fatalf("%d accepted, %d stale", v.accepted, v.stale)
					}
					v, until := &verdicts{}, make(chan struct{})
					held.Store(&until) // so that all come in one mail
					for _, d := range ds {
						say(e, v, d.Run.Token)
					}
					held.Store(nil)
					close(until)
					time.Sleep(10 * time.Second)
					synctest.Wait()
					if v.accepted != runs || v.stale != 0 {
						t.Errorf("again: %d accepted, %d stale", v.accepted, v.stale)
					}
					for _, n := range f.nodes {
						stop(t, n.Engine)
					}
				})
			})
		}
	}
}

// TestAResultThatComesWhileABeatIsPassedOn: it is the answer to the heartbeat too, which the owner refuses,
// as the run has ended with that success.
func TestAResultThatComesWhileABeatIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 1}), 2, nil)
		f.deal(func(int) int { return 1 })
		f.settled()
		owner, other := f.nodes[1], f.nodes[0]
		worker := owner.consume("q", 1, silent)
		owner.putOnce(time.Hour)
		run := worker.got()[0]
		success := carillon.Result{Token: run.Token, RunID: run.ID, Outcome: carillon.OutcomeSuccess}
		worker.say(t, carillon.WorkRequest{Results: []carillon.Result{success}})
		time.Sleep(time.Second)
		f.between = func(_ int, what engine.Message) error {
			if _, ok := what.(engine.RelayReports); ok {
				time.Sleep(time.Second)
			}
			return nil
		}
		v := &verdicts{}
		other.Heartbeats([]carillon.Heartbeat{{Token: run.Token, RunID: run.ID}}, v)
		time.Sleep(100 * time.Millisecond)
		other.Reports([]partition.Report{{From: v, Result: success}})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if v.accepted != 1 || v.stale != 0 {
			t.Errorf("the result was accepted %d times, and said to be stale %d times", v.accepted, v.stale)
		}
		f.stop()
	})
}
