package engine

import (
	"context"
	"errors"
	"strings"

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

// auditSteps is how many steps of a sweep are made at once while there are too many entries. So a partition
// that records 4,000 calls a second keeps to its bound.
const auditSteps = 5

// sweepAudit removes some audit entries that are too old or too many, if there are any. If there are more,
// the next poll goes on.
func sweepAudit(p *partitionRunner, now int64, begins bool) {
	p.timers.sweepOn = stepAudit(p, now, begins)
	for n := 1; p.timers.sweepOn && n < auditSteps && p.m.Audit.Crowded(); n++ {
		p.timers.sweepOn = stepAudit(p, now, false)
	}
}

// stepAudit makes a step of a sweep, and reports whether there is another one.
func stepAudit(p *partitionRunner, now int64, begins bool) (more bool) {
	q, ok := p.m.Audit.Sweeps(now, begins)
	if !ok {
		return false
	}
	oldest, err := look(&p.reads, p.shard.MetaRecords, q)
	sound := true
	switch {
	case err == nil:
		more, sound = p.m.Audit.Sweep(oldest, now)
	case errors.Is(err, store.ErrDamaged):
		p.reads.failed(err)
		sound = false
	default:
		p.reads.failed(err)
	}
	if !sound {
		p.e.log.Warn("an audit chain is damaged: none of its entries is removed any more; see carillon audit verify",
			"partition", p.number, "chain", strings.TrimSuffix(q.Prefix, "/"))
		more = p.m.Audit.LeaveAlone(now)
	}
	return more
}
