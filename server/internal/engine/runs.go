package engine

import (
	"cmp"
	"context"
	"errors"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// runs implements [carillon.Runs]; the list is in list.go.
type runs struct {
	partitions *partitions
	holds      *holds
	quotas     *quotas
}

// TriggerJob runs a job now; see [carillon.Runs].
func (rs *runs) TriggerJob(ctx context.Context, key carillon.Key,
	opts ...carillon.TriggerOption) (carillon.Run, error) {
	if err := rs.quotas.mayChange(ctx, key); err != nil {
		return carillon.Run{}, err
	}
	o, trace := carillon.TriggerOptions{}.With(opts...), traceOf(ctx)
	needs := func(key carillon.Key) call { return changing(ctx, triggerCall(key, &o)) }
	return ofJob(ctx, rs.partitions, key, needs,
		func(p *partitionRunner, now int64, key carillon.Key) (carillon.Run, error) {
			return p.m.Jobs.Trigger(now, key, o, trace)
		})
}

// triggerCall returns a call that triggers a job.
func triggerCall(key carillon.Key, o *carillon.TriggerOptions) call {
	if o.Rule() == carillon.OverlapReplace {
		return editCall(key) // it ends the pending runs of the job as well
	}
	return jobCall(key)
}

// ofRun parses a run id and finds its partition.
func (rs *runs) ofRun(id string) (store.RunID, *partitionRunner, error) {
	rid, err := store.ParseRunID(id)
	if err != nil {
		return rid, nil, err
	}
	rid = rid.In(len(rs.partitions.parts))
	return rid, rs.partitions.parts[rid.Partition], nil
}

func noRun(id string) error {
	return carillon.Errorf(carillon.NotFound, "id", "there is no run %s", id)
}

func runCall(id store.RunID) call { return call{live: []store.RunID{id}} }

// GetRun returns a run, finished or not; see [carillon.Runs].
func (rs *runs) GetRun(ctx context.Context, namespace, id string) (carillon.Run, error) {
	found, p, err := rs.find(ctx, namespace, id)
	run := found.value
	if err == nil && found.hold != nil {
		run.Hold = rs.holds.complete(ctx, p, found.hold)
	}
	return run, err
}

// find returns a run with its partition, and what that knows of why the run does not go on.
func (rs *runs) find(ctx context.Context, namespace,
	id string) (held[carillon.Run], *partitionRunner, error) {
	namespace = namespaceOf(namespace)
	none := held[carillon.Run]{}
	rid, p, err := rs.ofRun(id)
	if err != nil {
		return none, nil, err
	}
	run, err := inRound(ctx, p, runCall(rid), func(p *partitionRunner, now int64) (held[carillon.Run], error) {
		if r, ok := p.m.Records.Run(rid); ok {
			return held[carillon.Run]{r, p.m.Held.OfRun(rid, now)}, nil
		}
		rec, found, err := p.records.ended(rid)
		switch {
		case err != nil:
			return none, readError(err)
		case !found:
			return none, noRun(id)
		}
		return held[carillon.Run]{value: partition.RunOf(&rec)}, nil
	})
	if refused(err) {
		run.hold = nil
		run.value, err = rs.partitions.storedRun(ctx, p, rid, err)
	}
	if err == nil && run.value.Namespace != namespace {
		return none, nil, noRun(id)
	}
	return run, p, err
}

// CancelRun ends an unfinished run; see [carillon.Runs].
func (rs *runs) CancelRun(ctx context.Context, namespace, id string) (carillon.CancelResult, error) {
	namespace = namespaceOf(namespace)
	rid, p, err := rs.ofRun(id)
	if err != nil {
		return carillon.CancelResult{}, err
	}
	c := changing(ctx, runCall(rid))
	return inRound(ctx, p, c, func(p *partitionRunner, now int64) (carillon.CancelResult, error) {
		if r, ok := p.m.Records.Run(rid); ok && r.Namespace == namespace {
			c, ok := p.m.Jobs.Cancel(now, rid)
			if !ok {
				return c, noRun(id)
			}
			return c, nil
		}
		rec, found, err := p.records.ended(rid)
		switch {
		case err != nil:
			return carillon.CancelResult{}, readError(err)
		case !found || rec.Key.Namespace != namespace:
			return carillon.CancelResult{}, noRun(id)
		}
		return carillon.CancelResult{}, carillon.Errorf(carillon.FailedPrecondition, "id",
			"the run has ended: %s", rec.Status)
	})
}

// RedriveRun redrives a dead run; see [carillon.Runs].
func (rs *runs) RedriveRun(ctx context.Context, namespace, id string) (carillon.Run, error) {
	namespace = namespaceOf(namespace)
	rid, p, err := rs.ofRun(id)
	if err != nil {
		return carillon.Run{}, err
	}
	records, err := rs.partitions.reader(p).Runs(ctx, store.RunQuery{ID: &rid, Limit: 1})
	switch {
	case err != nil:
		return carillon.Run{}, readError(err)
	case len(records) == 0 || records[0].Key.Namespace != namespace:
		return carillon.Run{}, noRun(id)
	}
	return redrive(ctx, p, rid, records[0].Key)
}

// redrive redrives one dead run. Its record is read in a round of the partition, so that two callers cannot
// both redrive it.
func redrive(ctx context.Context, p *partitionRunner, id store.RunID,
	key carillon.Key) (carillon.Run, error) {
	c := changing(ctx, call{refs: []store.Ref{{Key: key}}, live: []store.RunID{id}})
	return withRoom(ctx, p.e.quotas, func() (carillon.Run, error) { // its job may be gone, and come back
		return inRound(ctx, p, c, func(p *partitionRunner, now int64) (carillon.Run, error) {
			dead, found, err := p.records.ended(id) // also if it has ended again, in a batch that is on its way
			switch {
			case err != nil:
				return carillon.Run{}, readError(err)
			case !found:
				return carillon.Run{}, noRun(id.String())
			case dead.Status != carillon.RunDead:
				return carillon.Run{}, carillon.Errorf(carillon.FailedPrecondition, "id",
					"only dead runs can be redriven; this one is %s", dead.Status)
			}
			return p.m.Jobs.Redrive(now, dead)
		})
	})
}

// RedriveRuns redrives the dead runs of a job, or of a namespace; see [carillon.Runs].
func (rs *runs) RedriveRuns(ctx context.Context, namespace, job string) (int, error) {
	namespace = namespaceOf(namespace)
	q, err := deadRuns(namespace, job)
	if err != nil {
		return 0, err
	}
	parts := rs.partitions.parts
	if q.Job != nil {
		parts = []*partitionRunner{rs.partitions.of(*q.Job)}
	}
	n := 0
	for _, p := range parts {
		done, err := across(ctx, rs.partitions, p, message.RedriveDead{Namespace: namespace, Job: job})
		n += done
		if err != nil {
			return n, partly(err, n > 0)
		}
	}
	return n, nil
}

// deadRuns returns a query for the dead runs of a job, or of a namespace.
func deadRuns(namespace, job string) (store.RunQuery, error) {
	q := store.RunQuery{Namespace: namespace, Status: new(carillon.RunDead), Limit: carillon.MaxBatch}
	if job == "" {
		return q, carillon.ValidateNamespace(namespace)
	}
	key := carillon.Key{Namespace: namespace, Name: job}
	q.Job = &key
	return q, key.Validate()
}

func redrivePages(ctx context.Context, p *partitionRunner, q store.RunQuery) (int, error) {
	n := 0
	for {
		records, err := p.e.reader(p).Runs(ctx, q)
		if err != nil {
			return n, readError(err)
		}
		for _, r := range records {
			if _, err := redrive(ctx, p, r.ID, r.Key); err == nil {
				n++
			} else if k := carillon.KindOf(err); k != carillon.NotFound && k != carillon.FailedPrecondition {
				return n, err // runs that are gone or no longer dead were redriven by somebody else
			}
		}
		if len(records) < q.Limit {
			return n, nil
		}
		q.After = records[len(records)-1].Cursor
	}
}

// CompleteRun takes the asynchronous result of an attempt; see [carillon.Runs].
func (rs *runs) CompleteRun(ctx context.Context, namespace string, result carillon.Result) error {
	_, err := rs.complete(ctx, namespace, result, partition.Once{})
	return err
}

// complete takes the result of an attempt, for a command if once has a request: it is then remembered, and
// before says that it was done already.
func (rs *runs) complete(ctx context.Context, namespace string, result carillon.Result,
	once partition.Once) (before bool, err error) {
	namespace = namespaceOf(namespace)
	if result.Token == "" {
		return false, carillon.Errorf(carillon.InvalidArgument, "token",
			"it is missing; give the one that came with the attempt")
	}
	if err := result.Validate(); err != nil {
		return false, err
	}
	tok, p := rs.partitions.token(result.Token)
	if p == nil {
		return false, carillon.Errorf(carillon.InvalidArgument, "token", "this is not a token of this store")
	}
	if result.RunID != "" {
		if id, _, err := rs.ofRun(result.RunID); err != nil || id != tok.Run {
			return false, carillon.Errorf(carillon.InvalidArgument, "token", "the token belongs to another run")
		}
	}
	run, _, err := rs.find(ctx, namespace, tok.Run.String())
	if err != nil && run.value.ID == "" {
		return false, p.certain(ctx, err)
	}
	key := carillon.Key{Namespace: namespace, Name: run.value.Job}
	refused := carillon.Errorf(carillon.FailedPrecondition, "token",
		"stale: the token is not that of the attempt in force")
	before, err = inRound(ctx, p, runCall(tok.Run), func(p *partitionRunner, now int64) (bool, error) {
		if once.Request != "" {
			if before, err := p.m.Commands.CompletedBefore(now, once, namespace); before || err != nil {
				return before, err
			}
		}
		verdict, err := p.intake.judge(&report{tok: tok,
			Report: &delivery.Report{Result: result, Namespace: namespace}}, now)
		switch {
		case err != nil:
			err = readError(err)
		case verdict == partition.Missing:
			err = carillon.Errorf(carillon.Unavailable, "",
				"the run was handed out by a node that has been killed, and is not known here yet: try again")
		case verdict != partition.Accepted:
			err = refused
		case once.Request != "":
			p.m.Commands.Completed(now, once, key)
		}
		return false, err
	})
	if errors.Is(err, refused) {
		return false, p.certain(ctx, err)
	}
	return before, err
}

// certain returns a refusal once everything that memory relied on for it is durable. If that were lost, the
// opposite might become true.
func (p *partitionRunner) certain(ctx context.Context, refusal error) error {
	_, err := inRoundSeq(ctx, p, call{},
		func(p *partitionRunner, _ int64) (struct{}, uint64, error) { return struct{}{}, p.m.Newest(), nil })
	return cmp.Or(err, refusal)
}

// SkipRun skips a job's next scheduled time; see [carillon.Runs].
func (rs *runs) SkipRun(ctx context.Context, key carillon.Key) (carillon.SkipResult, error) {
	return ofJob(ctx, rs.partitions, key, changingJob(ctx, editCall),
		func(p *partitionRunner, now int64, key carillon.Key) (carillon.SkipResult, error) {
			return p.m.Jobs.Skip(now, key)
		})
}
