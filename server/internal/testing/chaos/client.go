package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// caller is what a client does with jobs, through package client or by REST.
type caller interface {
	PutJob(ctx context.Context, job carillon.Job, opts ...carillon.PutOption) (carillon.PutResult, error)
	PatchJob(ctx context.Context, key carillon.Key, patch carillon.Patch) (carillon.PutResult, error)
	SetPaused(ctx context.Context, key carillon.Key, p carillon.PauseOptions) (carillon.Job, error)
	GetJob(ctx context.Context, key carillon.Key) (carillon.Job, error)
	DeleteJob(ctx context.Context, key carillon.Key,
		opts ...carillon.DeleteOption) (carillon.DeleteResult, error)
	TriggerJob(ctx context.Context, key carillon.Key, opts ...carillon.TriggerOption) (carillon.Run, error)
	CancelRun(ctx context.Context, namespace, id string) (carillon.CancelResult, error)
}

// batcher is what package client does besides.
type batcher interface {
	PutJobs(ctx context.Context, jobs []carillon.Job) ([]carillon.PutResult, error)
	ListJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error)
}

// user does one thing after the other with jobs, some of them at the same time as others do.
type user struct {
	name     string
	caller   caller
	record   *checker.Recorder
	dice     dice
	endpoint string            // HTTP target of some jobs
	made     int               // one-shots
	known    map[string]uint64 // generations

	triggered, ofJob string // the last run that was triggered
}

// Names of jobs that all clients share. There are few operations on each, so that they can be put in order
// afterwards.
const (
	sharedRecurring = 40
	sharedOneShots  = 20
	callTimeout     = 5 * time.Second
	leastThink      = 10 * time.Millisecond
	mostThink       = 60 * time.Millisecond
)

// run works until ctx ends. A call under way is ended by its own timeout.
func (c *user) run(ctx context.Context) {
	c.known = map[string]uint64{}
	for pause(ctx, c.dice.between(leastThink, mostThink)) == nil {
		c.step()
	}
}

// step does one thing. How it went is noted, and nothing hangs on it here.
func (c *user) step() {
	recurring := fmt.Sprintf("recurring/%d", c.dice.IntN(sharedRecurring))
	oneShot := fmt.Sprintf("again/%d", c.dice.IntN(sharedOneShots))
	either := pick(c.dice, recurring, oneShot)
	switch x := c.dice.IntN(100); {
	case x < 38:
		_ = c.put(c.dice.oneShot(c.fresh(), c.endpoint))
	case x < 40:
		_ = c.put(c.dice.repeated("repeats/"+c.fresh(), c.endpoint))
	case x < 52:
		_ = c.put(c.dice.recurring(recurring, c.endpoint))
	case x < 57:
		_ = c.put(c.dice.oneShot(oneShot, c.endpoint))
	case x < 62:
		c.trigger(recurring)
	case x < 64:
		c.cancel()
	case x < 70:
		c.delete(either)
	case x < 78:
		_ = c.setPaused(recurring, c.dice.chance(2))
	case x < 84:
		c.patch(either)
	case x < 88:
		c.batch()
	case x < 90:
		c.list(pick(c.dice, "recurring/", "again/"))
	default:
		c.get(either)
	}
}

// fresh is a name that nobody has used.
func (c *user) fresh() string {
	c.made++
	return fmt.Sprintf("%s/%d", c.name, c.made)
}

// do makes a call and notes it.
func (c *user) do(op checker.Op, call func(ctx context.Context) (fill func(*checker.Op), err error)) error {
	op.Client, op.Namespace = c.name, namespace
	done := c.record.Begin(op)
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	fill, err := call(ctx)
	finish(done, fill, err)
	return err
}

// finish notes how a call went.
func finish(done func(checker.Outcome, func(*checker.Op)), fill func(*checker.Op), err error) {
	if err == nil {
		done(checker.OK, fill)
		return
	}
	outcome := checker.Info
	e, ok := errors.AsType[*carillon.Error](err)
	if ok && !e.Unknown && e.Kind != carillon.DeadlineExceeded && e.Kind != carillon.Canceled {
		outcome = checker.Fail
	}
	done(outcome, func(o *checker.Op) {
		o.Error = err.Error()
		o.NotFound = outcome == checker.Fail && e.Kind == carillon.NotFound
		o.Refused = outcome == checker.Fail &&
			(e.Kind == carillon.AlreadyExists || e.Kind == carillon.FailedPrecondition)
	})
}

func (c *user) put(d drawn) error {
	op := checker.Op{Kind: checker.Put, Job: d.job.Name, Spec: &d.spec}
	var opts []carillon.PutOption
	switch generation := c.known[d.job.Name]; {
	case c.dice.chance(10):
		op.IfAbsent, opts = true, append(opts, carillon.IfAbsent())
	case generation > 0 && c.dice.chance(5):
		op.IfGeneration, opts = generation, append(opts, carillon.IfGeneration(generation))
	}
	return c.do(op, func(ctx context.Context) (func(*checker.Op), error) {
		put, err := c.caller.PutJob(ctx, d.job, opts...)
		return c.answered(&put), err
	})
}

// answered fills in the answer of a put or a patch.
func (c *user) answered(put *carillon.PutResult) func(*checker.Op) {
	return func(o *checker.Op) {
		o.Answer = answerOf(&put.Job)
		o.Answer.Created, o.Answer.Changed = put.Created, put.Changed
		c.known[o.Job] = o.Answer.Generation
	}
}

// answerOf is a job as an answer has it.
func answerOf(j *carillon.Job) checker.Answer {
	a := checker.Answer{Found: true, Paused: j.Paused, Payload: hashOf(j.Data.Bytes)}
	if s := j.Status; s != nil {
		a.Generation, a.UID, a.NextRun = s.Generation, s.UID.String(), s.NextRun
	}
	return a
}

func (c *user) patch(name string) {
	patch := carillon.Patch{Fields: []string{"data"},
		Job: carillon.Job{Data: carillon.JSON(fmt.Sprintf("%s %016x", name, c.dice.Uint64()))}}
	op := checker.Op{Kind: checker.Patch, Job: name, Fields: []string{"payload"},
		Spec: &checker.Job{Payload: hashOf(patch.Job.Data.Bytes)}}
	if generation := c.known[name]; generation > 0 && c.dice.chance(4) {
		patch.IfGeneration, op.IfGeneration = generation, generation
	}
	_ = c.do(op, func(ctx context.Context) (func(*checker.Op), error) {
		put, err := c.caller.PatchJob(ctx, carillon.Key{Namespace: namespace, Name: name}, patch)
		return c.answered(&put), err
	})
}

func (c *user) setPaused(name string, paused bool) error {
	kind := checker.Resume
	if paused {
		kind = checker.Pause
	}
	return c.do(checker.Op{Kind: kind, Job: name}, func(ctx context.Context) (func(*checker.Op), error) {
		j, err := c.caller.SetPaused(ctx, carillon.Key{Namespace: namespace, Name: name},
			carillon.PauseOptions{Paused: paused})
		return func(o *checker.Op) { o.Answer = answerOf(&j) }, err
	})
}

func (c *user) get(name string) {
	_ = c.do(checker.Op{Kind: checker.Get, Job: name}, func(ctx context.Context) (func(*checker.Op), error) {
		j, err := c.caller.GetJob(ctx, carillon.Key{Namespace: namespace, Name: name})
		if errors.Is(err, carillon.NotFound) { // an answer as good as any
			return func(o *checker.Op) { o.Answer = checker.Answer{} }, nil
		}
		return func(o *checker.Op) { o.Answer = answerOf(&j) }, err
	})
}

func (c *user) delete(name string) {
	_ = c.do(checker.Op{Kind: checker.Delete, Job: name}, func(ctx context.Context) (func(*checker.Op), error) {
		_, err := c.caller.DeleteJob(ctx, carillon.Key{Namespace: namespace, Name: name})
		return nil, err
	})
}

func (c *user) trigger(name string) {
	_ = c.do(checker.Op{Kind: checker.Trigger, Job: name}, func(ctx context.Context) (func(*checker.Op), error) {
		run, err := c.caller.TriggerJob(ctx, carillon.Key{Namespace: namespace, Name: name})
		if err == nil {
			c.triggered, c.ofJob = run.ID, name
		}
		return func(o *checker.Op) { o.Answer.RunID = run.ID }, err
	})
}

// cancel ends the run that was triggered last, if it has not ended.
func (c *user) cancel() {
	if c.triggered == "" {
		return
	}
	_ = c.do(checker.Op{Kind: checker.Cancel, Job: c.ofJob, RunID: c.triggered},
		func(ctx context.Context) (func(*checker.Op), error) {
			_, err := c.caller.CancelRun(ctx, namespace, c.triggered)
			return nil, err
		})
	c.triggered = ""
}

func (c *user) list(prefix string) {
	b, ok := c.caller.(batcher)
	if !ok {
		return
	}
	_ = c.do(checker.Op{Kind: checker.List, Job: prefix}, func(ctx context.Context) (func(*checker.Op), error) {
		page, err := b.ListJobs(ctx, carillon.JobQuery{Namespace: namespace, Prefix: prefix,
			PageSize: carillon.MaxBatch})
		return func(o *checker.Op) {
			for i := range page.Jobs {
				j := &page.Jobs[i]
				o.Answer.Listed = append(o.Answer.Listed, checker.Listed{Namespace: j.Namespace, Job: j.Name,
					Generation: j.Status.Generation, Payload: hashOf(j.Data.Bytes), Paused: j.Paused})
			}
		}, err
	})
}

// batch puts a few new one-shots at once.
func (c *user) batch() {
	b, ok := c.caller.(batcher)
	if !ok {
		return
	}
	id := fmt.Sprintf("%s-%d", c.name, c.made)
	var jobs []carillon.Job
	var done []func(checker.Outcome, func(*checker.Op))
	for range 2 + c.dice.IntN(5) {
		d := c.dice.oneShot(c.fresh(), c.endpoint)
		jobs = append(jobs, d.job)
		done = append(done, c.record.Begin(checker.Op{Kind: checker.BatchPut, Client: c.name,
			Namespace: namespace, Job: d.job.Name,
			Spec: &d.spec, Batch: id}))
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	puts, err := b.PutJobs(ctx, jobs)
	for i := range jobs {
		var fill func(*checker.Op)
		if err == nil {
			fill = c.answered(&puts[i])
		}
		finish(done[i], fill, err)
	}
}
