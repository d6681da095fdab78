package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// The profiles in which queues are paused.
var (
	// Halts is on one node, which is killed, too.
	Halts = Profile{Name: "halts", Busy: 45 * time.Second, Calm: 60 * time.Second, Ops: 90,
		Faults: []FaultKind{QueuePaused, QueuePaused, QueuePaused, Kill, StreamCut}, Storms: 6, Habits: true,
		HTTP: true, Crons: true, Kinds: usual}
	// HaltsOfACluster is among nodes that come, leave, are killed and do not hear of it.
	HaltsOfACluster = Profile{Name: "halts of a cluster", Busy: 40 * time.Second, Calm: 45 * time.Second,
		Ops: 80, Storms: 6, HTTP: true, Crons: true, Kinds: usual, Cluster: true, Habits: true,
		Faults: []FaultKind{QueuePaused, QueuePaused, QueuePaused, Departs, Kill, Cut, CutStore, Halt}}
)

// halt draws which queue is paused, for how long, and whether it is purged.
func (g *generator) halt(f *Fault) {
	f.Worker = pick(g.r, "default/", "default/", "tenant/") + pick(g.r, queues...)
	f.For = min(g.between(3*time.Second, 15*time.Second), g.plan.Busy-f.At)
	if g.oneIn(2) {
		f.Share = 0.2 + 0.6*g.r.Float64()
	}
}

// pauseQueue pauses a queue and resumes it.
func (w *world) pauseQueue(f Fault, actor int) {
	namespace, queue, _ := strings.Cut(f.Worker, "/")
	key := carillon.QueueKey{Namespace: namespace, Name: queue}
	fault := checker.Fault{Kind: string(f.Kind), Targets: []string{f.Worker}, From: time.Now()}
	c := w.steer(actor, func(ctx context.Context, q steering) (carillon.QueueChange, error) {
		return q.PauseQueue(ctx, key, "")
	})
	if len(c.Unheard) == 0 {
		fault.Shut = time.Now()
	}
	if f.Share > 0 {
		pauseUntil(actor, w.at(f.At+time.Duration(f.Share*float64(f.For))))
		w.purge(key, actor)
	}
	pauseUntil(actor, w.at(f.At+f.For))
	fault.Opened = time.Now()
	c = w.steer(actor, func(ctx context.Context, q steering) (carillon.QueueChange, error) {
		return q.ResumeQueue(ctx, key)
	})
	if fault.To = time.Now(); len(c.Unheard) > 0 {
		fault.To = fault.To.Add(unheardFor)
	}
	w.rec.Fault(fault)
}

// purge cancels what waits in a queue, once: a call whose outcome is not known is not repeated.
func (w *world) purge(key carillon.QueueKey, actor int) {
	n := w.pickNode(actor)
	done := w.rec.Begin(checker.Op{Kind: checker.Purge, Client: fmt.Sprint("steer", actor),
		Namespace: key.Namespace, Spec: &checker.Job{Queue: key.Name}})
	outcome := checker.Fail
	err := n.call(fmt.Sprint("steer", actor), func(ctx context.Context, _ Scheduler) (err error) {
		l := n.life()
		if l == nil {
			return errDown
		}
		for more := true; more && err == nil; {
			var p carillon.PurgeResult
			outcome = checker.Info // some of it may be done whatever the error says
			p, err = l.engine.PurgeQueue(ctx, key, carillon.PurgeOptions{})
			more = p.More
		}
		return err
	})
	if err == nil {
		outcome = checker.OK
	}
	done(outcome, func(o *checker.Op) { noteError(o, err) })
}

// unheardFor is how long nodes may go on that were not told of a change.
const unheardFor = 5 * time.Second

// steering is what pauses queues: [carillon.Queues].
type steering interface {
	PauseQueue(ctx context.Context, key carillon.QueueKey, note string) (carillon.QueueChange, error)
	ResumeQueue(ctx context.Context, key carillon.QueueKey) (carillon.QueueChange, error)
}

// steer calls nodes until one has done it.
func (w *world) steer(actor int, do func(context.Context, steering) (carillon.QueueChange, error)) (
	c carillon.QueueChange) {
	for {
		n := w.pickNode(actor)
		err := n.call(fmt.Sprint("steer", actor), func(ctx context.Context, _ Scheduler) (err error) {
			l := n.life()
			switch {
			case l == nil:
				return errDown
			case l.member != nil:
				c, err = do(ctx, l.member)
			default:
				c, err = do(ctx, alone{l})
			}
			return err
		})
		if err == nil {
			return c
		}
		pause(actor, 200*time.Millisecond)
	}
}

// alone pauses queues of a node that is alone, as package server does.
type alone struct{ *life }

// PauseQueue implements steering.
func (a alone) PauseQueue(ctx context.Context, key carillon.QueueKey,
	note string) (carillon.QueueChange, error) {
	if _, err := a.engine.PauseQueue(ctx, key, note); err != nil {
		return carillon.QueueChange{}, err
	}
	return carillon.QueueChange{}, a.engine.ReloadQueues(ctx)
}

// ResumeQueue implements steering.
func (a alone) ResumeQueue(ctx context.Context, key carillon.QueueKey) (carillon.QueueChange, error) {
	if _, err := a.engine.ResumeQueue(ctx, key); err != nil {
		return carillon.QueueChange{}, err
	}
	return carillon.QueueChange{}, a.engine.ReloadQueues(ctx)
}
