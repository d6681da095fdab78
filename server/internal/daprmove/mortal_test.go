package daprmove_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
)

// chance is what several goroutines draw from.
type chance struct {
	mu sync.Mutex
	*rand.Rand
}

func (c *chance) upTo(n int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Int64N(n)
}

// mortal is a node whose caller ends after some calls; calls fail now and then besides.
type mortal struct {
	carillon.Scheduler
	left   atomic.Int64
	die    context.CancelFunc
	chance *chance
}

// newMortal returns a node whose caller ends after fewer than most calls.
func newMortal(n *server.Node, die context.CancelFunc, c *chance, most int64) *mortal {
	m := &mortal{Scheduler: n.Scheduler(), die: die, chance: c}
	m.left.Store(c.upTo(most))
	return m
}

func (m *mortal) call(f func() error) error {
	if m.left.Add(-1) == 0 {
		m.die()
	}
	x := m.chance.upTo(100)
	if x < 2 {
		return carillon.Errorf(carillon.Unavailable, "", "not now")
	}
	err := f()
	if x < 4 {
		return carillon.Errorf(carillon.Unavailable, "", "the answer was lost")
	}
	return err
}

func (m *mortal) PutJob(ctx context.Context, j carillon.Job, o ...carillon.PutOption) (r carillon.PutResult, err error) {
	err = m.call(func() (err error) { r, err = m.Scheduler.PutJob(ctx, j, o...); return err })
	return r, err
}

func (m *mortal) SetPaused(ctx context.Context, k carillon.Key, p carillon.PauseOptions) (j carillon.Job, err error) {
	err = m.call(func() (err error) { j, err = m.Scheduler.SetPaused(ctx, k, p); return err })
	return j, err
}

func (m *mortal) GetJob(ctx context.Context, k carillon.Key) (j carillon.Job, err error) {
	err = m.call(func() (err error) { j, err = m.Scheduler.GetJob(ctx, k); return err })
	return j, err
}

func (m *mortal) ListJobs(ctx context.Context, q carillon.JobQuery) (p carillon.JobPage, err error) {
	err = m.call(func() (err error) { p, err = m.Scheduler.ListJobs(ctx, q); return err })
	return p, err
}

func (m *mortal) DeleteJob(ctx context.Context, k carillon.Key, o ...carillon.DeleteOption) (r carillon.DeleteResult, err error) {
	err = m.call(func() (err error) { r, err = m.Scheduler.DeleteJob(ctx, k, o...); return err })
	return r, err
}

// away is a node that nobody reaches for a while; it counts the calls that come meanwhile.
type away struct {
	carillon.Scheduler
	gone  atomic.Bool
	calls atomic.Int64 // but those about marks
}

func (a *away) PutJob(ctx context.Context, j carillon.Job, o ...carillon.PutOption) (carillon.PutResult, error) {
	if err := a.reach(j.Key()); err != nil {
		return carillon.PutResult{}, err
	}
	return a.Scheduler.PutJob(ctx, j, o...)
}

func (a *away) GetJob(ctx context.Context, k carillon.Key) (carillon.Job, error) {
	if err := a.reach(k); err != nil {
		return carillon.Job{}, err
	}
	return a.Scheduler.GetJob(ctx, k)
}

func (a *away) reach(k carillon.Key) error {
	if !a.gone.Load() {
		return nil
	}
	if k.Name != theMark.Name {
		a.calls.Add(1)
	}
	return carillon.Errorf(carillon.Unavailable, "", "the store is away")
}

// theMark is the mark of the states of the cluster "1".
var theMark = carillon.Key{Namespace: "default", Name: "dapr-import/1"}
