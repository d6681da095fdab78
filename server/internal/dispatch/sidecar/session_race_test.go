package sidecar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/stream"
)

// fakeEngine is an engine of one partition that hands out a number of runs and again what comes back
// undelivered, until each has been reported once.
type fakeEngine struct {
	hub    *dispatch.Hub
	limits named
	tasks  chan func()
	done   chan struct{} // closed when all are reported

	waiting map[delivery.Queue][]string
	all     map[string]*carillon.DaprTarget // by token
	left    int
	seen    map[string]bool
	tries   int // a token is of one try
	run     map[string]string
}

func (s *fakeEngine) Heartbeats([]carillon.Heartbeat, delivery.Reporter) {}

func (s *fakeEngine) Lost([]string) {}

func (s *fakeEngine) Slots(_ delivery.Owner, q delivery.Queue, n int) {
	s.tasks <- func() { s.serve(q, n) }
}

func (s *fakeEngine) Consumers(q delivery.Queue) { s.tasks <- func() { s.serve(q, 0) } }

func (s *fakeEngine) Reports(rs []delivery.Report) {
	s.tasks <- func() {
		for _, r := range rs {
			name := s.run[r.Token]
			if s.seen[name] {
				panic(name + " was reported twice")
			}
			s.seen[name] = true
			if s.left--; s.left == 0 {
				close(s.done)
			}
		}
	}
}

func (s *fakeEngine) Undelivered(tokens []string) {
	s.tasks <- func() {
		touched := map[delivery.Queue]bool{}
		for _, token := range tokens {
			name := s.run[token]
			if s.seen[name] {
				continue
			}
			q := queueOf(s.all[name])
			s.waiting[q] = append(s.waiting[q], name)
			touched[q] = true
		}
		for q := range touched {
			s.serve(q, 0)
		}
	}
}

// serve hands out what waits in a queue as far as there is room, beside the slots that came by mail.
func (s *fakeEngine) serve(q delivery.Queue, sent int) {
	lineup := []delivery.Waiting{{Queue: q, Now: len(s.waiting[q]), Slots: delivery.Slots{N: sent}}}
	s.hub.Offer(delivery.Owner{}, lineup)
	n := min(lineup[0].Slots.N, len(s.waiting[q]))
	ds := make([]delivery.Delivery, n)
	for i, name := range s.waiting[q][:n] {
		target := s.all[name]
		s.tries++
		token := fmt.Sprint(name, "#", s.tries)
		s.run[token] = name
		ds[i] = delivery.Delivery{Queue: q, Target: carillon.Target{Dapr: target},
			Run: &carillon.Run{Token: token}}
	}
	s.waiting[q] = slices.Clone(s.waiting[q][n:])
	s.hub.Deliver(0, ds, []delivery.Rest{{Queue: q, Unused: lineup[0].Slots.N - n, N: len(s.waiting[q])}})
}

// untilClosed is for a sidecar that answers everything until the hub is closed.
const untilClosed = -1

// runSidecar is a sidecar that answers so many of the runs it gets, in any order, and leaves with the rest.
func runSidecar(s *fakeEngine, hello Hello, rnd *rand.Rand, answers int) {
	o, stays := Options{Credits: 20, Bounds: stream.Bounds{MessageItems: 5}}, answers == untilClosed
	if stays {
		o.Credits = 2 // the others shall have most
	}
	session, err := Open(s.hub, &s.limits, hello, o)
	if errors.Is(err, carillon.Unavailable) {
		return // all is done
	}
	held := map[uint64]*carillon.DaprTarget{}
	var ids []uint64
	for stays || answers > 0 {
		ds, err := session.Receive(ctx)
		if err != nil {
			return
		}
		for _, d := range ds {
			held[d.ID] = d.Target
			ids = append(ids, d.ID)
		}
		rnd.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		most := len(ids)
		if answers -= most; !stays && answers <= 0 { // it may not wait for more with runs that others wait for
			most = rnd.IntN(most + 1)
		}
		for _, id := range ids[:most] {
			delete(held, id)
			_ = session.Result(id, true, "") // in the end the hub closes it
		}
		ids = ids[most:]
	}
	_ = session.Close()
}

// TestRace lets sidecars come, answer some of their runs and go with the others: each run is reported once,
// and in the end no limit is in force.
func TestRace(t *testing.T) {
	const runs = 3000
	hello := Hello{Namespace: "n", AppID: "app", Jobs: true, ActorTypes: []string{"cat", "dog"},
		Limits: []Limit{{"cat", "", 7}, {"cat", "k0", 2}, {"dog", "k1", 1}}}
	s := &fakeEngine{tasks: make(chan func(), 1<<16), done: make(chan struct{}),
		waiting: map[delivery.Queue][]string{},
		all:     map[string]*carillon.DaprTarget{}, left: runs, seen: map[string]bool{}, run: map[string]string{}}
	s.hub = dispatch.New(s, dispatch.Options{Chunk: 4})
	for i := range runs {
		target := &carillon.DaprTarget{AppID: "app"}
		if i%4 > 0 {
			target.ActorType, target.ConcurrencyKey = [...]string{"cat", "dog"}[i%2], fmt.Sprint("k", i%3)
		}
		name := fmt.Sprint("run-", i)
		s.all[name] = target
		s.waiting[queueOf(target)] = append(s.waiting[queueOf(target)], name)
	}
	var engine, sidecars sync.WaitGroup
	engine.Go(func() {
		for f := range s.tasks {
			f()
		}
	})
	for i := range 4 {
		sidecars.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for range 60 {
				runSidecar(s, hello, rnd, 1+rnd.IntN(30))
			}
		})
	}
	sidecars.Go(func() { runSidecar(s, hello, rand.New(rand.NewPCG(9, 9)), untilClosed) })
	<-s.done
	_ = s.hub.Close()
	sidecars.Wait()
	close(s.tasks)
	engine.Wait()
	if len(s.hub.Queues()) > 0 || len(s.limits.inForce) > 0 || len(s.hub.Workers()) > 0 {
		t.Fatalf("%v, %v, %v are left", s.hub.Queues(), s.limits.inForce, s.hub.Workers())
	}
}
