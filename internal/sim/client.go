package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/carillonhq/carillon"
)

// client owns some job names and does things with them, one after the other.
type client struct {
	node   *node
	ledger *Ledger
	rng    *rand.Rand
	names  []string
	quick  bool // only one-shots
}

const namespace = carillon.DefaultNamespace

// run does operations until the deadline.
func (c *client) run(until time.Time) {
	for {
		time.Sleep(time.Duration(c.rng.Int64N(int64(3 * time.Second))))
		if !time.Now().Before(until) {
			return
		}
		name := c.names[c.rng.IntN(len(c.names))]
		switch x := c.rng.IntN(10); {
		case x < 6:
			c.put(name)
		case x < 7:
			c.do("delete", name, func(ctx context.Context, l *life, _ *Op) error {
				_, err := l.engine.DeleteJob(ctx, key(name))
				return err
			})
		case x < 8:
			c.do("trigger", name, func(ctx context.Context, l *life, op *Op) error {
				run, err := l.engine.TriggerJob(ctx, key(name))
				op.RunID = run.ID
				return err
			})
		default:
			pause := c.rng.IntN(2) == 0
			kind := "resume"
			if pause {
				kind = "pause"
			}
			c.do(kind, name, func(ctx context.Context, l *life, _ *Op) error {
				_, err := l.engine.SetPaused(ctx, key(name), carillon.Pause{Paused: pause})
				return err
			})
		}
	}
}

func key(name string) carillon.Key { return carillon.Key{Namespace: namespace, Name: name} }

// put stores a job drawn at random.
func (c *client) put(name string) {
	j, spec := c.job(name)
	c.do("put", name, func(ctx context.Context, l *life, op *Op) error {
		op.Spec = spec
		put, err := l.engine.PutJob(ctx, j)
		if err == nil {
			op.First, op.UID = put.Job.Status.NextRun, put.Job.Status.UID.String()
		}
		return err
	})
}

func (c *client) job(name string) (carillon.Job, Spec) {
	spec := Spec{
		Delay: time.Duration(1+c.rng.IntN(4)) * time.Second, Retries: 1 + c.rng.IntN(4),
		Lease: time.Duration(2+c.rng.IntN(6)) * time.Second, Overlap: "serial", Misfire: "latest",
	}
	j := carillon.Job{
		Name: name, Target: carillon.WorkerQueue(queues[c.rng.IntN(len(queues))]), Lease: spec.Lease, Timeout: 30 * time.Second,
		FailurePolicy: carillon.Constant(spec.Delay).WithMaxRetries(uint32(spec.Retries)),
		Data:          carillon.JSON(c.rng.Uint64()), History: carillon.History{Runs: 1000},
		Class: carillon.Class(c.rng.IntN(4)),
	}
	if c.quick || c.rng.IntN(2) == 0 {
		j.Due = carillon.In(time.Duration(c.rng.Int64N(int64(20 * time.Second))))
		return j, spec
	}
	spec.Every = time.Duration(1+c.rng.IntN(9)) * time.Second
	j.Schedule = "@every " + spec.Every.String()
	if c.rng.IntN(2) == 0 {
		j.Overlap, spec.Overlap = carillon.OverlapSkip, "skip"
	}
	switch c.rng.IntN(3) {
	case 0:
		j.Misfire, spec.Misfire = carillon.MisfireAll, "all"
	case 1:
		j.Misfire, spec.Misfire = carillon.MisfireSkip, "skip"
	}
	return j, spec
}

// do runs one operation and writes down how it went.
func (c *client) do(kind, name string, f func(ctx context.Context, l *life, op *Op) error) {
	op := Op{Kind: kind, Job: name, From: time.Now()}
	err := c.node.call(func(ctx context.Context, l *life) error { return f(ctx, l, &op) })
	op.To, op.Outcome = time.Now(), outcome(err)
	c.ledger.op(op)
}

func outcome(err error) Outcome {
	var e *carillon.Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e) && !e.Unknown && !errors.Is(err, carillon.DeadlineExceeded):
		return Failed
	}
	return Unknown
}

// closeAll resumes every job, so that nothing waits for ever.
func (c *client) closeAll() error {
	for _, name := range c.names {
		if err := c.retry(func(ctx context.Context, l *life) error {
			op := Op{Kind: "resume", Job: name, From: time.Now()}
			_, err := l.engine.SetPaused(ctx, key(name), carillon.Pause{})
			if errors.Is(err, carillon.NotFound) {
				return nil
			}
			op.To, op.Outcome = time.Now(), outcome(err)
			c.ledger.op(op)
			return err
		}); err != nil {
			return fmt.Errorf("resume %s: %w", name, err)
		}
	}
	return nil
}

// retry calls f until it works: the faults are over.
func (c *client) retry(f func(ctx context.Context, l *life) error) error {
	var err error
	for range 20 {
		if err = c.node.call(f); err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
	return err
}
