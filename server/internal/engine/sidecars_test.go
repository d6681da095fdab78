package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/sidecar"
	streams "github.com/carillonhq/carillon/server/internal/dispatch/stream"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// parish is a node with sidecars that connect, answer most of what they get, and disconnect with the rest.
type parish struct {
	*node
	ends time.Time
	all  sync.WaitGroup

	mu sync.Mutex
	// by job: the scheduled times that succeeded, in the order of the first report
	times map[string][]time.Time
	done  map[string]bool // runs that succeeded
	at    map[string]int  // by run: how many sidecars have it
	wrong []string
	twice int // runs delivered again after a success, or to another sidecar while one had it
}

var parishLimits = []sidecar.Limit{{ActorType: "cat", Most: 9}, {ActorType: "cat", Key: "k", Most: 1},
	{ActorType: "cat", Key: "l", Most: 2}}

const (
	parishJobs  = 60
	parishTimes = 5
)

func parishTarget(i int) *carillon.DaprTarget {
	if i%3 == 0 {
		return &carillon.DaprTarget{AppID: "x"}
	}
	return &carillon.DaprTarget{AppID: "x", ActorType: "cat", ActorID: fmt.Sprint(i),
		ConcurrencyKey: []string{"", "k", "l"}[i%5%3]}
}

func parishJob(name string, target *carillon.DaprTarget, size int) carillon.Job {
	return carillon.Job{Name: target.Prefix() + name, Target: carillon.Target{Dapr: target},
		FailurePolicy: carillon.Constant(time.Second), Data: carillon.Bytes(make([]byte, size), "a/b")}
}

// gets records what a sidecar got.
func (w *parish) gets(ds []sidecar.Delivery, mine map[uint64]sidecar.Delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range ds {
		mine[d.ID] = d
		if now := time.Now(); now.Before(d.Run.Due) || now.Before(d.Run.Scheduled) {
			w.wrong = append(w.wrong, d.Run.ID+" is early")
		}
		if w.at[d.Run.ID]++; w.at[d.Run.ID] > 1 || w.done[d.Run.ID] {
			w.twice++
		}
	}
}

// answer returns the result of a run.
func (w *parish) answer(s *sidecar.Session, d *sidecar.Delivery, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.Result(d.ID, ok, "no") != nil {
		return
	}
	w.at[d.Run.ID]--
	if ok && !w.done[d.Run.ID] {
		w.done[d.Run.ID] = true
		w.times[d.Run.Job] = append(w.times[d.Run.Job], d.Run.Scheduled)
	}
}

// live is the life of one sidecar. A good one answers everything.
func (w *parish) live(h sidecar.Hello, rnd *rand.Rand, life time.Duration, good bool) {
	o := sidecar.Options{Credits: 1 + rnd.IntN(60),
		Bounds: streams.Bounds{MessageItems: 1 + rnd.IntN(8), PendingBytes: 2000}}
	s, err := sidecar.Open(w.hub, w, h, o)
	if err != nil {
		w.t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), life)
	defer cancel()
	mine := map[uint64]sidecar.Delivery{}
	for {
		ds, err := s.Receive(ctx)
		if err != nil {
			break
		}
		w.gets(ds, mine)
		time.Sleep(time.Duration(rnd.IntN(2000)) * time.Millisecond)
		for _, id := range slices.Sorted(maps.Keys(mine)) {
			if d := mine[id]; good || rnd.IntN(10) > 0 {
				w.answer(s, &d, good || rnd.IntN(4) > 0)
				delete(mine, id)
			}
		}
	}
	w.mu.Lock()
	for _, d := range mine {
		w.at[d.Run.ID]--
	}
	w.mu.Unlock()
	_ = s.Close()
}

// come makes sidecars connect and disconnect, one after the other.
func (w *parish) come(rnd *rand.Rand) {
	for time.Now().Before(w.ends) {
		time.Sleep(time.Duration(rnd.IntN(8000)) * time.Millisecond)
		h := sidecar.Hello{Namespace: "default", AppID: "x", Jobs: rnd.IntN(2) == 0}
		if rnd.IntN(3) > 0 {
			h.ActorTypes = []string{"cat"}
		}
		if rnd.IntN(2) > 0 {
			h.Limits = parishLimits
		}
		w.live(h, rnd, time.Duration(100+rnd.IntN(15_000))*time.Millisecond, false)
	}
}

// overwrite puts jobs again and again, with their state replaced, and deletes some.
func (w *parish) overwrite(rnd *rand.Rand) {
	target := &carillon.DaprTarget{AppID: "x", ActorType: "cat", ActorID: "o", ConcurrencyKey: "k"}
	for time.Now().Before(w.ends) {
		time.Sleep(time.Duration(rnd.IntN(600)) * time.Millisecond)
		j := parishJob(fmt.Sprint("over", rnd.IntN(10)), target, rnd.IntN(2)*1500)
		var err error
		switch rnd.IntN(4) {
		case 0:
			_, err = w.DeleteJob(context.Background(), carillon.Key{Namespace: "default", Name: j.Name})
		case 1:
			j.Schedule, j.Repeats = "@every 1s", 3
			_, err = w.PutJob(context.Background(), j, carillon.Replace())
		default:
			j.Due = carillon.In(time.Duration(rnd.IntN(3)) * time.Second)
			_, err = w.PutJob(context.Background(), j, carillon.Replace())
		}
		if err != nil && !errors.Is(err, carillon.NotFound) && !errors.Is(err, carillon.Unavailable) {
			w.t.Error(err)
		}
	}
}

// fail makes writes fail: not applied, or applied with a lost answer.
func (w *parish) fail(f *faulty, rnd *rand.Rand) {
	for time.Now().Before(w.ends) {
		time.Sleep(time.Duration(rnd.IntN(10_000)) * time.Millisecond)
		lands := rnd.IntN(2) == 0
		f.fail(func(apply func() error) error {
			f.fail(nil)
			if lands {
				return errors.Join(apply(), fmt.Errorf("%w: lost", store.ErrUnknown))
			}
			return errors.New("no space left on device")
		})
	}
	f.fail(nil)
}

// settled checks what is left after everything has had its time.
func (w *parish) settled(faults bool) {
	for i := range parishJobs {
		name := parishTarget(i).Prefix() + fmt.Sprint(i)
		if got := w.times[name]; len(got) != parishTimes || !slices.IsSortedFunc(got, time.Time.Compare) {
			w.t.Errorf("%s ran %v", name, got)
		}
	}
	if len(w.wrong) > 0 || (w.twice > 0 && !faults) { // a lost write may have lost reports
		w.t.Errorf("%v; %d more than once", w.wrong, w.twice)
	}
	if st := w.Stats(); st.InFlight+st.Resident != 0 ||
		len(w.hub.Queues())+len(w.LimitTallies())+len(w.hub.Workers()) != 0 {
		w.t.Errorf("left: %+v, %+v, %+v", st, w.hub.Queues(), w.LimitTallies())
	}
}

// TestSidecarsComeAndGo: under limits, with jobs that are replaced and little memory, on a store that fails
// or does not. Every time of every job succeeds, in order, none is early, none succeeds twice unless the
// store lost the report, and in the end nobody holds anything.
func TestSidecarsComeAndGo(t *testing.T) {
	for seed := range uint64(20) {
		faults := seed%2 == 1
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
				f := &faulty{Store: memory.New(memory.Options{Partitions: 1 + int(seed%4)})}
				few := partition.Config{WindowJobs: 8 + int(seed), WindowBytes: 40_000}
				w := &parish{node: startWith(t, engine.Config{Store: f, Partition: few}),
					ends: time.Now().Add(90 * time.Second), times: map[string][]time.Time{}, done: map[string]bool{},
					at: map[string]int{}}
				for i := range parishJobs {
					j := parishJob(fmt.Sprint(i), parishTarget(i), i%2*1500)
					j.Schedule, j.Repeats = "@every 5s", parishTimes
					if _, err := w.PutJob(context.Background(), j); err != nil {
						t.Fatal(err)
					}
				}
				for i := range uint64(4) {
					w.all.Go(func() { w.come(rnd(i)) })
				}
				w.all.Go(func() { w.overwrite(rnd(5)) })
				if faults {
					w.all.Go(func() { w.fail(f, rnd(6)) })
				}
				w.all.Wait()
				last := sidecar.Hello{Namespace: "default", AppID: "x", Jobs: true,
					ActorTypes: []string{"cat"}, Limits: parishLimits}
				w.live(last, rnd(7), time.Hour, true)
				w.settled(faults)
				w.stop()
			})
		})
	}
}
