package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// scanRun reads a record. Its cursor is a run of nothing but what the indexes compare. So the row must be
// that of the run, or the next page might begin before this one.
func scanRun(row pgx.CollectableRow) (store.RunRecord, error) {
	var record []byte
	var id pgtype.UUID
	var scheduled, seq int64
	var cause int16
	if err := row.Scan(&record, &id, &scheduled, &cause, &seq); err != nil {
		return store.RunRecord{}, err
	}
	r, err := codec.DecodeRun(record)
	if err != nil {
		return r, err
	}
	if is := (store.RunID{Partition: r.ID.Partition, UID: id.Bytes, Scheduled: scheduled,
		Cause: carillon.Cause(cause), Seq: uint64(seq)}); is != r.ID {
		return r, errAnotherRun
	}
	position := store.RunRecord{Key: r.Key, ID: r.ID, Finished: r.Finished}
	r.Cursor = codec.AppendRun([]byte{}, &position)
	return r, nil
}

var errAnotherRun = fmt.Errorf("%w: it is kept under the id of another run", store.ErrDamaged)

// runsOf begins a query of the runs of a partition.
const runsOf = "SELECT record, uid, scheduled, cause, seq FROM carillon_runs WHERE partition = "

// Runs returns finished runs, newest first.
func (s *shard) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	if q.ID != nil && int(q.ID.Partition) != s.partition ||
		q.ID == nil && (q.Limit <= 0 || !isText(q.Namespace)) {
		return nil, ctx.Err()
	}
	var after *store.RunRecord
	if q.After != nil {
		r, err := codec.DecodeRun(q.After)
		if err != nil {
			return nil, err
		}
		after = &r
	}
	var c conditions
	c.add(runsOf, c.arg(s.partition))
	switch {
	case q.ID != nil:
		c.add(" AND uid = ", c.arg(uuid(q.ID.UID)), " AND scheduled = ", c.arg(q.ID.Scheduled),
			" AND cause = ", c.arg(int16(q.ID.Cause)),
			" AND seq = ", c.arg(int64(q.ID.Seq)))
	case q.Job != nil:
		c.jobRuns(q, after)
	case q.All:
		c.allRuns(q, after)
	default:
		c.endedRuns(q, after)
	}
	return query(ctx, s.s, scanRun, string(c.sql), c.args...)
}

// jobRuns are the runs of a job, the newest scheduled time first.
func (c *conditions) jobRuns(q store.RunQuery, after *store.RunRecord) {
	c.add(" AND namespace = ", c.arg(q.Job.Namespace), " AND name = ", c.arg(q.Job.Name))
	if after != nil {
		at := c.arg(after.ID.Scheduled)
		c.add(" AND scheduled <= ", at, " AND (scheduled < ", at, " OR (uid, cause, seq) > (",
			c.arg(uuid(after.ID.UID)), ", ", c.arg(int16(after.ID.Cause)), ", ", c.arg(int64(after.ID.Seq)), "))")
	}
	if q.Status != nil {
		c.add(" AND status = ", c.arg(int16(*q.Status)))
	}
	c.between(q)
	c.add(" ORDER BY scheduled DESC, uid, cause, seq LIMIT ", c.arg(q.Limit))
}

// allRuns are those of the partition, in the order of their identities.
func (c *conditions) allRuns(q store.RunQuery, after *store.RunRecord) {
	if after != nil {
		c.add(" AND (uid, scheduled, cause, seq) > (", c.arg(uuid(after.ID.UID)), ", ", c.arg(after.ID.Scheduled),
			", ", c.arg(int16(after.ID.Cause)), ", ", c.arg(int64(after.ID.Seq)), ")")
	}
	c.add(" ORDER BY uid, scheduled, cause, seq LIMIT ", c.arg(q.Limit))
}

// endedRuns are the runs of a namespace that ended with a status, the newest finished first.
func (c *conditions) endedRuns(q store.RunQuery, after *store.RunRecord) {
	c.add(" AND status = ", c.arg(int16(*q.Status)), " AND namespace = ", c.arg(q.Namespace))
	c.between(q)
	if after != nil {
		at := c.arg(after.Finished)
		c.add(" AND finished <= ", at, " AND (finished < ", at, " OR (uid, scheduled, cause, seq) > (",
			c.arg(uuid(after.ID.UID)), ", ",
			c.arg(after.ID.Scheduled), ", ", c.arg(int16(after.ID.Cause)), ", ", c.arg(int64(after.ID.Seq)), "))")
	}
	c.add(" ORDER BY finished DESC, uid, scheduled, cause, seq LIMIT ", c.arg(q.Limit))
}

// between asks for runs that finished within the bounds.
func (c *conditions) between(q store.RunQuery) {
	if q.Since != 0 {
		c.add(" AND finished >= ", c.arg(q.Since))
	}
	if q.Until != 0 {
		c.add(" AND finished < ", c.arg(q.Until))
	}
}
