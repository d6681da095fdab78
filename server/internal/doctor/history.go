package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/sealed"
)

// runsAtOnce are read at once: each may have a result.
const runsAtOnce = 64

// history examines the finished runs.
func (p *exam) history(ctx context.Context) error {
	q := store.RunQuery{All: true, Limit: runsAtOnce}
	for {
		page, err := p.shard.Runs(ctx, q)
		if errors.Is(err, store.ErrDamaged) {
			return p.unlessDamaged(store.FaultRunUnreadable, p.faults > 0, err)
		}
		if err != nil || len(page) == 0 {
			return err
		}
		last := page[len(page)-1].Cursor
		if bytes.Equal(last, q.After) {
			return p.unlessDamaged(store.FaultRunUnreadable, p.faults > 0, errNoFurther)
		}
		q.After = last
		for i := range page {
			p.run(&page[i])
		}
		if p.tell != nil {
			p.tell(p.report)
		}
	}
}

// errNoFurther reports a list that would go on for ever.
var errNoFurther = fmt.Errorf("%w: the history lists the same runs again", store.ErrDamaged)

// run examines a finished run by itself. Its job may be gone.
func (p *exam) run(r *store.RunRecord) {
	p.report.Runs++
	findf := func(kind Kind, format string, args ...any) {
		p.report.add(findingOfRun(kind, p.number, r.Key, r.ID, said(format, args...)))
	}
	at := store.PartitionOf(r.Key, p.n)
	switch {
	case at != p.number || int(r.ID.Partition) != p.number:
		findf(RunMisplaced, "it belongs in partition %d, and its id says %d", at, r.ID.Partition)
	case !names(r.ID.UID, r.Key):
		findf(RunMisplaced, "its uid %x is of another name", r.ID.UID)
	}
	if !r.Status.Finished() || r.Expires == 0 {
		findf(RunInvalid, "its status is %s, and its retention ends at %d", r.Status, r.Expires)
	}
	if err := sealed.UnopenedRun(r); err != nil && p.keys != nil {
		findf(Undecrypted, "%v", err)
	}
	if epoch := r.Grant.Term.Epoch; epoch > p.epochs[p.number] {
		findf(EpochAhead, "its last attempt was granted in epoch %d, and the last term of the partition is %d", epoch,
			p.epochs[p.number])
	}
}
