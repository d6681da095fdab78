package engine

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	memstore "github.com/carillonhq/carillon/server/store/memory"
)

// noConsumers is a dispatcher without consumers.
type noConsumers struct{}

func (noConsumers) Offer(delivery.Owner, []delivery.Waiting)          {}
func (noConsumers) Deliver(int, []delivery.Delivery, []delivery.Rest) {}
func (noConsumers) Cancel([]delivery.Cancel)                          {}
func (noConsumers) Awaited(int, []delivery.Awaited)                   {}
func (noConsumers) SetPaused([]delivery.Queue)                        {}
func (noConsumers) Forget(int)                                        {}

// TestAMachineIsFreedAfterItsTerm: a node that has handed partitions over does not keep their memory.
func TestAMachineIsFreedAfterItsTerm(t *testing.T) {
	for name, end := range map[string]func(e *Engine, p *partitionRunner){
		"handed over": func(e *Engine, _ *partitionRunner) { e.Assign(nil) },
		"lost": func(e *Engine, p *partitionRunner) {
			p.own.wanted.Store(false)
			p.box.put(func(m *mail) { m.overTerms = append(m.overTerms, p.own.term) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				e := New(Config{Store: memstore.New(memstore.Options{Partitions: 1})})
				if err := e.Start(ctx, noConsumers{}); err != nil {
					t.Fatal(err)
				}
				job := carillon.Job{Name: "a", Schedule: "@every 1s", Target: carillon.WorkerQueue("q")}
				if _, err := e.PutJob(ctx, job); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second)
				synctest.Wait()
				p := e.parts[0]
				machine := weak.Make(p.m)
				end(e, p)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				runtime.GC()
				if p.own.holds() || machine.Value() != nil {
					t.Errorf("holds: %v; the machine is freed: %v", p.own.holds(), machine.Value() == nil)
				}
				if err := e.Stop(ctx); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
