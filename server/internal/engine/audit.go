package engine

import (
	"context"
	"errors"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// record records who has made a call with the batch that is being filled, which is that of what the call has
// changed; nil: nothing is to be recorded. It returns the batch.
func record(p *partitionRunner, c *audit.Call, now int64) (seq uint64) {
	if c == nil {
		return 0
	}
	e := c.Entry()
	e.Outcome = carillon.AuditOK
	p.m.Audit.Add(now, e)
	return p.m.After()
}

// changing returns a call that records who has made it, if it succeeds.
func changing(ctx context.Context, c call) call {
	c.audit = audit.From(ctx)
	return c
}

// changingJob is changing for a call that needs what a job needs.
func changingJob(ctx context.Context, needs func(carillon.Key) call) func(carillon.Key) call {
	return func(k carillon.Key) call { return changing(ctx, needs(k)) }
}

// audits implements [carillon.Audit]; the list is in audit_list.go.
type audits struct {
	partitions *partitions
	lines      *auditLog
}

// Record records an entry by itself: of a call that has changed nothing in one partition alone. It returns
// once that is durable.
func (a audits) Record(ctx context.Context, e *store.AuditEntry) error {
	_, err := across(ctx, a.partitions, a.partitions.parts[partition.Home], message.RecordAudit{Entry: *e})
	return err
}

func serveRecordAudit(ctx context.Context, p *partitionRunner, m message.RecordAudit) (any, error) {
	return inRound(ctx, p, call{}, func(p *partitionRunner, now int64) (struct{}, error) {
		p.m.Audit.Add(now, m.Entry)
		return struct{}{}, nil
	})
}

// sweepAudit removes some audit entries that are too old or too many, if there are any. If there are more,
// the next poll goes on.
func sweepAudit(p *partitionRunner, now int64, begins bool) {
	p.timers.sweepOn = false
	q, ok := p.m.Audit.Sweeps(now, begins)
	if !ok {
		return
	}
	oldest, err := look(&p.reads, p.shard.MetaRecords, q)
	switch {
	case err == nil:
		p.timers.sweepOn = p.m.Audit.Sweep(oldest, now)
	case errors.Is(err, store.ErrDamaged):
		p.reads.failed(err)
		p.timers.sweepOn = p.m.Audit.LeaveAlone(now)
	default:
		p.reads.failed(err)
	}
}
