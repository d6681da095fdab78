package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// client does its operations one after the other.
type client struct {
	w      *world
	number int
	ops    []*Op
	known  map[string]known // by namespace and job
}

// known is what the client was last told of a job.
type known struct {
	generation uint64
	run        string // it triggered, or saw
	backfill   string
}

// run does all operations, each at its time or as soon as the one before has come back.
func (c *client) run() {
	for i, o := range c.ops {
		pauseUntil(actorClient+c.number, c.w.at(o.At))
		c.do(i, o)
	}
}

func (c *client) do(i int, o *Op) {
	rec := checker.Op{
		Kind: o.Kind, Client: fmt.Sprintf("client%d",
			c.number), Namespace: o.Namespace, Job: o.Job, Spec: o.Spec, Fields: o.Fields,
		IfAbsent: o.IfAbsent, CatchUp: o.CatchUp, Limits: o.Limits, Rates: o.Rates,
	}
	k := c.known[o.Namespace+"/"+o.Job]
	key := carillon.Key{Namespace: o.Namespace, Name: o.Job}
	if strings.HasPrefix(o.Job, carillon.DaprPrefix) {
		c.doDapr(o, rec)
		return
	}
	switch o.Kind {
	case checker.Put:
		c.put(o, rec, k)
	case checker.Patch:
		c.patch(o, rec, k)
	case checker.BatchPut:
		c.batch(o, rec, fmt.Sprintf("batch%d.%d", c.number, i))
	case checker.Delete:
		c.ask(rec, func(ctx context.Context, api Scheduler, _ *checker.Answer) error {
			_, err := api.DeleteJob(ctx, key)
			return err
		})
	case checker.DeletePrefix:
		c.ask(rec, func(ctx context.Context, api Scheduler, a *checker.Answer) (err error) {
			a.Deleted, err = api.DeleteJobs(ctx, o.Namespace, o.Job)
			return err
		})
	case checker.Pause, checker.Resume:
		c.ask(rec, func(ctx context.Context, api Scheduler, a *checker.Answer) error {
			j, err := api.SetPaused(ctx, key, carillon.PauseOptions{Paused: o.Kind == checker.Pause,
				CatchUp: o.CatchUp})
			c.told(a, j, err)
			return err
		})
	default:
		c.doRun(o, rec, key, k)
	}
}

// doRun does the operations on runs, and the reads.
func (c *client) doRun(o *Op, rec checker.Op, key carillon.Key, k known) {
	switch o.Kind {
	case checker.Trigger:
		c.ask(rec, func(ctx context.Context, api Scheduler, a *checker.Answer) error {
			r, err := api.TriggerJob(ctx, key)
			if a.RunID = r.ID; err == nil {
				k.run = r.ID
				c.known[key.String()] = k
			}
			return err
		})
	case checker.Cancel:
		if k.run == "" { // it looks for one
			seen := rec
			seen.Kind = checker.Get
			c.get(seen, key, k)
			k = c.known[key.String()]
		}
		if rec.RunID = k.run; rec.RunID == "" {
			return // it knows of no run
		}
		k.run = ""
		c.known[key.String()] = k
		c.ask(rec, func(ctx context.Context, api Scheduler, _ *checker.Answer) error {
			_, err := api.CancelRun(ctx, o.Namespace, rec.RunID)
			return err
		})
	case checker.Redrive:
		c.redrive(o, rec)
	case checker.Get:
		c.get(rec, key, k)
	case checker.List:
		c.list(o, rec)
	default:
		c.doMore(o, rec, key, k)
	}
}

// doMore does the operations that not every node knows.
func (c *client) doMore(o *Op, rec checker.Op, key carillon.Key, k known) {
	switch o.Kind {
	case checker.Skip:
		c.ask(rec, func(ctx context.Context, api Scheduler, a *checker.Answer) error {
			s, err := api.SkipRun(ctx, key)
			if err == nil {
				a.NextRun = s.Time
			}
			return err
		})
	case checker.Backfill:
		rec.From = time.Now().Add(-o.From).Truncate(time.Second)
		rec.To = time.Now().Add(-o.To).Truncate(time.Second)
		spec := carillon.BackfillSpec{From: rec.From, To: rec.To, Rate: o.Rate}
		if o.Spec != nil && o.Spec.Overlap == "allow" {
			spec.Overlap = carillon.OverlapAllow
		}
		c.ask(rec, func(ctx context.Context, api Scheduler, a *checker.Answer) error {
			b, err := api.StartBackfill(ctx, key, spec)
			if a.BackfillID, a.Runs = b.ID, int(b.Total); err == nil {
				k.backfill = b.ID
				c.known[key.String()] = k
			}
			return err
		})
	case checker.BackfillCancel:
		if rec.BackfillID = k.backfill; rec.BackfillID == "" {
			return
		}
		c.ask(rec, func(ctx context.Context, api Scheduler, _ *checker.Answer) error {
			_, err := api.CancelBackfill(ctx, o.Namespace, rec.BackfillID)
			return err
		})
	case checker.PutNamespace:
		c.ask(rec, func(ctx context.Context, api Scheduler, _ *checker.Answer) error {
			_, err := api.PutNamespace(ctx, o.settings())
			return err
		})
	default:
		c.w.fail(fmt.Errorf("the plan asks for %q", o.Kind))
	}
}

// ask calls a node and writes down how it went.
func (c *client) ask(rec checker.Op, f func(ctx context.Context, api Scheduler, a *checker.Answer) error) {
	var answer checker.Answer
	done := c.w.rec.Begin(rec)
	err := c.call(func(ctx context.Context, api Scheduler) error { return f(ctx, api, &answer) })
	done(outcomeOf(err), func(o *checker.Op) { noteError(o, err); o.Answer = answer })
}

// call calls a node, and others if that one says that it has done nothing.
func (c *client) call(f func(ctx context.Context, api Scheduler) error) (err error) {
	order := c.w.chance.now("which nodes", uint64(c.number)).Perm(len(c.w.nodes))
	for _, i := range order[:min(len(order), 3)] {
		if err = c.w.nodes[i].call(fmt.Sprintf("client%d", c.number), f); !errors.Is(err,
			carillon.Unavailable) || outcomeOf(err) != checker.Fail {
			return err
		}
	}
	return err
}

// pickNode is one of the nodes that are there, or any.
func (w *world) pickNode(actor int) *node {
	order := w.chance.now("which node", uint64(actor)).Perm(len(w.nodes))
	for _, i := range order {
		if w.nodes[i].life() != nil {
			return w.nodes[i]
		}
	}
	return w.nodes[0]
}

// outcomeOf is what a client knows of a call.
func outcomeOf(err error) checker.Outcome {
	e, ok := errors.AsType[*carillon.Error](err)
	switch {
	case err == nil:
		return checker.OK
	case ok && !e.Unknown:
		return checker.Fail
	}
	return checker.Info
}

func noteError(o *checker.Op, err error) {
	if err == nil {
		return
	}
	o.Error = err.Error()
	e, ok := errors.AsType[*carillon.Error](err)
	o.NotFound = ok && e.Kind == carillon.NotFound && e.Field == "name" // of the job, not of a run or a backfill
	o.Refused = errors.Is(err, carillon.AlreadyExists) ||
		(errors.Is(err, carillon.FailedPrecondition) && (o.IfGeneration != 0 || o.IfAbsent))
}

// told notes what an answer says of a job.
func (c *client) told(a *checker.Answer, j carillon.Job, err error) {
	if err != nil || j.Status == nil {
		return
	}
	a.Generation, a.UID, a.NextRun = j.Status.Generation, j.Status.UID.String(), j.Status.NextRun
	k := c.known[j.Key().String()]
	k.generation = a.Generation
	if r := j.Status.Current; r != nil {
		k.run = r.ID
	}
	c.known[j.Key().String()] = k
}

func (c *client) put(o *Op, rec checker.Op, k known) {
	var opts []carillon.PutOption
	if o.IfAbsent {
		opts = append(opts, carillon.IfAbsent())
	}
	if o.Guarded && k.generation != 0 {
		rec.IfGeneration = k.generation
		opts = append(opts, carillon.IfGeneration(k.generation))
	}
	c.w.mayPauseUnseen(&rec)
	c.ask(rec, func(ctx context.Context, api Scheduler, a *checker.Answer) error {
		p, err := api.PutJob(ctx, jobOf(o.Namespace, o.Job, o.Spec), opts...)
		a.Created, a.Changed = p.Created, p.Changed
		c.told(a, p.Job, err)
		return err
	})
}

func (c *client) patch(o *Op, rec checker.Op, k known) {
	p := carillon.Patch{Fields: patchFields(o.Fields), Job: jobOf(o.Namespace, o.Job, o.Spec)}
	if o.Guarded && k.generation != 0 {
		rec.IfGeneration, p.IfGeneration = k.generation, k.generation
	}
	c.w.mayPauseUnseen(&rec)
	c.ask(rec, func(ctx context.Context, api Scheduler, a *checker.Answer) error {
		put, err := api.PatchJob(ctx, carillon.Key{Namespace: o.Namespace, Name: o.Job}, p)
		a.Changed = put.Changed
		c.told(a, put.Job, err)
		return err
	})
}

// batch puts several jobs at once: an operation of its own for each.
func (c *client) batch(o *Op, rec checker.Op, id string) {
	var jobs []carillon.Job
	var done []func(checker.Outcome, func(*checker.Op))
	for _, b := range o.Batch {
		jobs = append(jobs, jobOf(o.Namespace, b.Job, b.Spec))
		rec.Job, rec.Spec, rec.Batch = b.Job, b.Spec, id
		c.w.mayPauseUnseen(&rec)
		done = append(done, c.w.rec.Begin(rec))
	}
	var puts []carillon.PutResult
	err := c.call(func(ctx context.Context, api Scheduler) (err error) {
		puts, err = api.PutJobs(ctx, jobs)
		return err
	})
	for i := range done {
		done[i](outcomeOf(err), func(o *checker.Op) {
			noteError(o, err)
			if err == nil {
				o.Answer.Created, o.Answer.Changed = puts[i].Created, puts[i].Changed
				c.told(&o.Answer, puts[i].Job, nil)
			}
		})
	}
}

// redrive tries the job's dead runs again, the newest alone if the operation is guarded.
func (c *client) redrive(o *Op, rec checker.Op) {
	if o.Guarded {
		err := c.call(func(ctx context.Context, api Scheduler) error {
			page, err := api.ListRuns(ctx, carillon.RunQuery{Namespace: o.Namespace, Job: o.Job,
				Statuses: []carillon.RunStatus{carillon.RunDead}, PageSize: 1})
			for _, r := range page.Runs {
				rec.RunID = r.ID
			}
			return err
		})
		if err != nil || rec.RunID == "" {
			return // it knows of none
		}
	}
	c.ask(rec, func(ctx context.Context, api Scheduler, _ *checker.Answer) error {
		var err error
		if rec.RunID != "" {
			_, err = api.RedriveRun(ctx, o.Namespace, rec.RunID)
		} else {
			_, err = api.RedriveRuns(ctx, o.Namespace, o.Job)
		}
		return err
	})
}

func (c *client) get(rec checker.Op, key carillon.Key, k known) {
	c.ask(rec, func(ctx context.Context, api Scheduler, a *checker.Answer) error {
		j, err := api.GetJob(ctx, key)
		if errors.Is(err, carillon.NotFound) {
			k.generation = 0
			c.known[key.String()] = k
			return nil
		}
		if a.Found = err == nil; a.Found {
			a.Payload, a.Paused = string(j.Data.Bytes), j.Paused
		}
		c.told(a, j, err)
		return err
	})
}

func (c *client) list(o *Op, rec checker.Op) {
	c.ask(rec, func(ctx context.Context, api Scheduler, a *checker.Answer) error {
		page, err := api.ListJobs(ctx, carillon.JobQuery{Namespace: o.Namespace, Prefix: o.Job,
			PageSize: carillon.MaxBatch})
		for i := range page.Jobs {
			j := &page.Jobs[i]
			a.Listed = append(a.Listed, checker.Listed{Namespace: j.Namespace, Job: j.Name,
				Generation: j.Status.Generation, Payload: string(j.Data.Bytes), Paused: j.Paused})
			if !slices.Contains(a.Namespaces, j.Namespace) {
				a.Namespaces = append(a.Namespaces, j.Namespace)
			}
		}
		return err
	})
}
