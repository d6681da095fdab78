package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

var _ store.Examiner = (*Store)(nil)

// examinedAtOnce is how many rows are read at once.
const examinedAtOnce = 256

// Examine implements [store.Examiner]. The columns by which PostgreSQL finds a row are copies of what stands
// in its state or its record: each row is compared with itself, and written again if they differ.
func (s *Store) Examine(ctx context.Context, partition int, term store.Term,
	found func(store.Fault) error) error {
	sh, err := s.Shard(partition, term)
	if err != nil {
		return err
	}
	x := &examiner{s: s, shard: sh, partition: partition, mends: !term.IsZero(), found: found}
	if err := x.jobs(ctx); err != nil {
		return err
	}
	return x.runs(ctx)
}

// examiner looks at the rows of one partition. What mends a page of rows is written before its faults are
// told.
type examiner struct {
	s         *Store
	shard     store.Shard
	partition int
	mends     bool
	found     func(store.Fault) error

	faults []store.Fault
	b      store.Batch // mends them
}

// end ends a page.
func (x *examiner) end(ctx context.Context) error {
	if x.mends && len(x.b.Puts)+len(x.b.Runs) > 0 {
		if err := x.shard.Apply(ctx, &x.b); err != nil {
			return err
		}
	}
	faults := x.faults
	x.faults, x.b = nil, store.Batch{}
	for _, f := range faults {
		f.Mended = x.mends
		if err := x.found(f); err != nil {
			return err
		}
	}
	return nil
}

// unreadable tells of a row that cannot be decoded.
func (x *examiner) unreadable(kind store.FaultKind, ref store.Ref, err error) error {
	return x.found(store.Fault{Kind: kind, Ref: ref, What: err.Error()})
}

const examineJobsSQL = `
SELECT namespace, name, seq, uid, class, phase, coalesce(due, 0), queue, live, run_scheduled, run_cause, run_seq, run_due, state
FROM carillon_jobs WHERE partition = $1 AND (namespace, name, seq) > ($2, $3, $4) ORDER BY namespace, name, seq LIMIT $5`

// jobRow is a row of the jobs: what its columns say, and its state.
type jobRow struct {
	store.Ref
	says  store.State
	queue string
	state []byte
}

func scanJobRow(row pgx.CollectableRow) (r jobRow, err error) {
	var seq, runSeq int64
	var id pgtype.UUID
	var class, phase, cause int16
	s := &r.says
	err = row.Scan(&r.Namespace, &r.Name, &seq, &id, &class, &phase, &s.Due, &r.queue, &s.Run.Live,
		&s.Run.Scheduled, &cause, &runSeq, &s.Run.Due, &r.state)
	r.Seq, s.UID, s.Run.Seq = uint64(seq), id.Bytes, uint64(runSeq)
	s.Priority, s.Phase, s.Run.Cause = uint8(class), carillon.Phase(phase), carillon.Cause(cause)
	return r, err
}

// jobs looks at the rows of jobs and pending runs.
func (x *examiner) jobs(ctx context.Context) error {
	last := store.Ref{}
	for {
		page, err := query(ctx, x.s, scanJobRow, examineJobsSQL, x.partition, last.Namespace, last.Name,
			int64(last.Seq), examinedAtOnce)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			state, err := codec.DecodeState(page[i].state)
			if err != nil {
				if err := x.unreadable(store.FaultRecordUnreadable, page[i].Ref, err); err != nil {
					return err
				}
				continue
			}
			x.job(&page[i], &state)
		}
		last = page[len(page)-1].Ref
		if err := x.end(ctx); err != nil {
			return err
		}
	}
}

// job compares the columns of a row with its state.
func (x *examiner) job(r *jobRow, s *store.State) {
	before := len(x.faults)
	differs := func(is bool, missing, dangling store.FaultKind, has bool, what string) {
		kind := dangling
		if has {
			kind = missing
		}
		if is {
			x.faults = append(x.faults, store.Fault{Kind: kind, Ref: r.Ref, What: otherwise(what)})
		}
	}
	staged, queue := s.Phase == carillon.PhaseStaged, ""
	if staged {
		queue = queueText(s.Queue)
	}
	differs(r.says.Due != s.Due || r.says.Priority != s.Priority, store.FaultDueMissing, store.FaultDueDangling,
		s.Due != 0, "due")
	differs(r.says.Phase != s.Phase, store.FaultPhaseMissing, store.FaultPhaseDangling,
		s.Phase != carillon.PhaseScheduled, "phase")
	differs(r.queue != queue || staged && r.says.Run.Due != s.Run.Due, store.FaultStagedMissing,
		store.FaultStagedDangling, staged, "queue")
	other := s.Run.Live && r.says.Identity(x.partition) != s.Identity(x.partition)
	differs(r.says.Run.Live != s.Run.Live || other, store.FaultLiveMissing, store.FaultLiveDangling,
		s.Run.Live, "run")
	if len(x.faults) > before {
		x.b.Puts = append(x.b.Puts, store.Record{Ref: r.Ref, State: *s})
	}
}

// otherwise says which columns of a row are not what they are copies of.
func otherwise(columns string) string { return "its " + columns + " columns say something else" }

const examineRunsSQL = `
SELECT uid, scheduled, cause, seq, namespace, name, status, finished, expires, record FROM carillon_runs
WHERE partition = $1 AND (uid, scheduled, cause, seq) > ($2, $3, $4, $5) ORDER BY uid, scheduled, cause, seq LIMIT $6`

// runRow is a row of the finished runs: what its columns say, and its record.
type runRow struct {
	says   store.RunRecord
	record []byte
}

func scanRunRow(row pgx.CollectableRow) (r runRow, err error) {
	var seq int64
	var id pgtype.UUID
	var cause, status int16
	s := &r.says
	err = row.Scan(&id, &s.ID.Scheduled, &cause, &seq, &s.Key.Namespace, &s.Key.Name, &status, &s.Finished,
		&s.Expires, &r.record)
	s.ID.UID, s.ID.Cause, s.ID.Seq = id.Bytes, carillon.Cause(cause), uint64(seq)
	s.Status = carillon.RunStatus(status)
	return r, err
}

// runs looks at the rows of finished runs.
func (x *examiner) runs(ctx context.Context) error {
	last, lowest := store.RunID{}, int64(-1<<63)
	last.Scheduled = lowest
	for {
		page, err := query(ctx, x.s, scanRunRow, examineRunsSQL, x.partition, uuid(last.UID), last.Scheduled,
			int16(last.Cause), int64(last.Seq), examinedAtOnce)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			says := &page[i].says
			says.ID.Partition = uint16(x.partition)
			r, err := codec.DecodeRun(page[i].record)
			if err == nil && r.ID != says.ID {
				err = errAnotherRun
			}
			if err != nil {
				if err := x.unreadable(store.FaultRunUnreadable, store.Ref{Key: says.Key}, err); err != nil {
					return err
				}
				continue
			}
			x.run(says, &r)
		}
		last = page[len(page)-1].says.ID
		if err := x.end(ctx); err != nil {
			return err
		}
	}
}

// run compares the columns of a row with its record.
func (x *examiner) run(says, r *store.RunRecord) {
	before := len(x.faults)
	differs := func(is bool, kind store.FaultKind, what string) {
		if is {
			x.faults = append(x.faults, store.Fault{Kind: kind, Ref: store.Ref{Key: r.Key}, Run: r.ID,
				What: otherwise(what)})
		}
	}
	differs(says.Key != r.Key, store.FaultHistoryMissing, "name")
	differs(says.Status != r.Status || says.Finished != r.Finished, store.FaultStatusMissing, "status")
	differs(says.Expires != r.Expires, store.FaultAgeMissing, "age")
	if len(x.faults) > before {
		x.b.Runs = append(x.b.Runs, *r)
	}
}
