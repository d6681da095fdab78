package engine

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// A waiting job is released because the partition of the job that it depends on holds the dependency. If that
// record is lost, say by a store that goes back to before it, the job would never be told. So the waiting
// job's own partition checks, too: it finds waiting jobs in the store, where they need no memory, registers
// their dependencies again, and looks in the store for a missed success. See docs/decisions/0020.

const (
	// waitersFirst is how long after the start of a term its waiting jobs are first checked.
	waitersFirst = 15 * time.Second
	// waitersEvery is how often they are checked. Checking takes at most one waitersShare-th of the time.
	waitersEvery = time.Minute
	waitersShare = 100
	// waitersAtOnce is how many are read at a time.
	waitersAtOnce = 256
)

// waiterCheck says when a partition checks its waiting jobs.
type waiterCheck struct {
	busy    atomic.Bool
	next    atomic.Int64 // by Engine.elapsed
	missing atomic.Pointer[unmet]
}

// unmet is how often jobs of a partition waited for a job that did not exist, at the last check, and under
// which term.
type unmet struct {
	term store.Term
	n    int64
}

// waiter is a job of a partition that waits for a success of another job.
type waiter struct {
	dependency message.Dependency
	by         store.RunID // the last success that it was told of
	since      int64       // an earlier success does not count
}

// askForWaiters starts a check of the partition's waiting jobs in the background, if one is due.
func (p *partitionRunner) askForWaiters() {
	c := &p.waiters
	if p.e.elapsed() < c.next.Load() || !c.busy.CompareAndSwap(false, true) {
		return
	}
	term, since := p.own.term, p.e.elapsed()
	run := p.e.batches.run(func() {
		defer c.busy.Store(false)
		n, err := p.e.dependencies.checkWaiters(p, term)
		took := p.e.elapsed() - since
		c.next.Store(p.e.elapsed() + max(int64(waitersEvery), waitersShare*took))
		if err != nil {
			p.e.log.Debug("jobs that wait for others were not all looked at", "partition", p.number, "error", err)
			return
		}
		if before := c.missing.Swap(&unmet{term, n}); n > 0 && (before == nil || n > before.n) {
			p.e.log.Warn("jobs wait for jobs that do not exist", "partition", p.number, "waits", n)
		}
	})
	if !run {
		c.busy.Store(false)
	}
}

// checkWaiters checks the waiting jobs of a partition. It counts how often they wait for a job that does not
// exist.
func (d *dependencies) checkWaiters(p *partitionRunner, term store.Term) (missing int64, err error) {
	phase := carillon.PhaseWaiting
	for q := (store.ListQuery{Phase: &phase, Limit: waitersAtOnce, MaxSpec: 1}); ; {
		page, err := d.partitions.reader(p).List(d.partitions.life, q)
		if err != nil {
			return missing, err
		}
		waiters := d.waitersOf(page)
		for _, of := range inOrder(waiters) {
			n, err := d.checkWith(p, term, of, waiters[of])
			if missing += n; err != nil {
				return missing, err
			}
		}
		if len(page) < q.Limit {
			return missing, nil
		}
		last := page[len(page)-1].Key
		q.After = last.Namespace + "\x00" + last.Name
	}
}

// waitersOf returns the waiting jobs of a page, by the partition of the job that they depend on.
func (d *dependencies) waitersOf(page []store.Record) map[*partitionRunner][]waiter {
	byPart := map[*partitionRunner][]waiter{}
	for i := range page {
		r := &page[i]
		for _, w := range r.State.Waits {
			if w.Open {
				continue
			}
			since := w.Since
			if since == 0 { // written before Since was recorded
				since = max(r.State.Updated, r.State.Last.Finished)
			}
			edge := message.Dependency{Of: carillon.Key{Namespace: r.Namespace, Name: w.Name}, Name: r.Name}
			of := d.partitions.of(edge.Of)
			byPart[of] = append(byPart[of], waiter{edge, w.By, since})
		}
	}
	return byPart
}

// checkWith registers dependencies with the partition of the jobs depended on, and then looks for missed
// successes. Of successes after the registration the waiting jobs are told.
func (d *dependencies) checkWith(p *partitionRunner, term store.Term, of *partitionRunner,
	list []waiter) (missing int64, err error) {
	ctx, cancel := context.WithTimeout(d.partitions.life, answerWithin)
	defer cancel()
	edges := make([]message.Dependency, len(list))
	for i := range list {
		edges[i] = list[i].dependency
	}
	exist, err := across(ctx, d.partitions, of, message.RegisterDependencies{Dependencies: edges})
	// Too many wait; those that are registered are told.
	if err != nil && carillon.KindOf(err) != carillon.ResourceExhausted {
		return 0, err
	}
	for i := range list {
		by, at, err := d.successOf(ctx, of, list[i].dependency.Of)
		switch {
		case err != nil:
			return missing, err
		case at > list[i].since && by != list[i].by:
			if err := d.releaseMissed(ctx, p, term, list[i], by); err != nil {
				return missing, err
			}
		case i < len(exist) && !exist[i]:
			missing++
		}
	}
	return missing, nil
}

// successOf returns the newest finished run of a job and when it ended, if it succeeded.
func (d *dependencies) successOf(ctx context.Context, p *partitionRunner, key carillon.Key) (id store.RunID,
	at int64, err error) {
	r, err := d.partitions.stored(ctx, p, store.Ref{Key: key})
	if err != nil {
		return id, 0, err
	}
	if last := r.State.Last; r.Exists && last.Finished != 0 {
		if last.Status != carillon.RunSucceeded {
			return id, 0, nil
		}
		return store.RunID{Partition: uint16(p.number), UID: r.State.UID, Scheduled: last.Scheduled,
			Cause: last.Cause, Seq: last.Seq}, last.Finished, nil
	}
	run, err := d.lastRun(ctx, p, key)
	if err != nil || run.Status != carillon.RunSucceeded {
		return id, 0, err
	}
	return run.ID, run.Finished, nil
}

// releaseMissed releases a waiting job that was not told of a success, unless its partition's term has
// changed since the success was read: the store may have gone back to before it.
func (d *dependencies) releaseMissed(ctx context.Context, p *partitionRunner, term store.Term, w waiter,
	by store.RunID) error {
	released, err := inRound(ctx, p, jobCall(w.dependency.Waiting()),
		func(p *partitionRunner, _ int64) (bool, error) {
			return p.own.term == term && p.m.Jobs.ReleaseIf(message.Notice{Dependency: w.dependency, By: by}, w.by),
				nil
		})
	if released {
		d.partitions.log.Info("a job that waited was not told of a success, and goes on now", "job",
			w.dependency.Waiting().String(), "depends_on", w.dependency.Of.Name)
	}
	return err
}

// findMissing records in a job which of the jobs that it depends on do not exist.
func (d *dependencies) findMissing(ctx context.Context, j *carillon.Job) error {
	if j.Status == nil || len(j.Status.Waiting) == 0 {
		return nil
	}
	records, err := d.partitions.storedJobs(ctx, j.Namespace, j.Status.Waiting)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for i := range records {
		there[records[i].Name] = records[i].Exists
	}
	j.Status.Missing = slices.DeleteFunc(slices.Clone(j.Status.Waiting),
		func(name string) bool { return there[name] })
	return nil
}
