package doctor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/internal/repartition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/sealed"
)

// eachMeta calls f with the metadata records of a kind.
func (p *exam) eachMeta(ctx context.Context, kind byte, f func(r *store.MetaRecord) error) error {
	q := store.MetaQuery{Kind: kind, Limit: runsAtOnce}
	for {
		page, err := p.shard.MetaRecords(ctx, q)
		if errors.Is(err, store.ErrDamaged) {
			p.cut[kind] = true
			return p.unlessDamaged(MetaUnreadable, p.faults > 0, err)
		}
		if err != nil {
			return err
		}
		for i := range page {
			if err := f(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < q.Limit {
			return nil
		}
		q.After = page[len(page)-1].Key
	}
}

// named reads what records are compared with: the queues that are named as parked, and the permits. A node
// has both in memory, too.
func (p *exam) named(ctx context.Context) error {
	p.parked, p.permits, p.inForce = map[string]bool{}, map[store.Ref]bool{}, map[store.Ref]struct{}{}
	p.cut = map[byte]bool{}
	if err := p.eachMeta(ctx, store.KindParked, func(r *store.MetaRecord) error {
		p.parked[r.Key] = true
		return nil
	}); err != nil {
		return err
	}
	return p.eachMeta(ctx, store.KindLimited, func(r *store.MetaRecord) error {
		if h, ok := permitrecord.ParseHeld(r); ok {
			p.permits[h.Of] = true
		}
		return nil
	})
}

// danglingPermits looks for permits without an attempt, once all records are read.
func (p *exam) danglingPermits(ctx context.Context) error {
	if len(p.unreadable) > 0 || p.cut[store.KindLimited] {
		return nil // it may be theirs
	}
	return p.eachMeta(ctx, store.KindLimited, func(r *store.MetaRecord) error {
		h, ok := permitrecord.ParseHeld(r)
		if _, is := p.inForce[h.Of]; is || !ok {
			return nil
		}
		f := findingOf(PermitDangling, p.number, h.Of, said("of the limit %q", h.Limit.Key))
		return p.mend(ctx, p.number, f, without(r))
	})
}

// without is a batch that removes a metadata record.
func without(r *store.MetaRecord) *store.Batch {
	return &store.Batch{MetaRecords: []store.MetaRecord{{Kind: r.Kind, Key: r.Key}}}
}

// metadata examines the metadata records of all kinds that there may be.
func (p *exam) metadata(ctx context.Context) error {
	var intents intents
	for _, letters := range []string{"az", "AZ"} {
		for kind := letters[0]; kind <= letters[1]; kind++ {
			if err := p.eachMeta(ctx, kind, func(r *store.MetaRecord) error {
				p.report.Meta++
				if r.Kind == store.KindIntent {
					intents.add(p, r)
				}
				p.meta(r)
				return nil
			}); err != nil {
				return err
			}
		}
	}
	intents.end(p)
	chains, err := audit.Examine(ctx, p.shard, p.number, nil)
	if err != nil {
		return err
	}
	for i := range chains {
		if c := &chains[i]; c.Broken != "" {
			p.findf(AuditBroken, store.Ref{}, "chain %s: %s", c.Chain, c.Broken)
		}
	}
	return p.backfills(ctx)
}

// meta examines one metadata record.
func (p *exam) meta(r *store.MetaRecord) {
	at, err := p.belongs(r)
	switch {
	case err == nil && at < 0:
		p.findf(MetaUnknown, store.Ref{}, "kind %q, key %q, %d bytes", r.Kind, clip(r.Key), len(r.Value))
	case err != nil:
		p.findf(MetaUnreadable, store.Ref{}, "kind %q, key %q: %v", r.Kind, clip(r.Key), err)
	case at != p.number:
		p.findf(MetaMisplaced, store.Ref{}, "kind %q, key %q: it belongs in partition %d", r.Kind, clip(r.Key), at)
	case p.keys != nil:
		p.decrypted(sealed.UnopenedMeta(r), func(kind Kind, err error) {
			p.findf(kind, store.Ref{}, "kind %q, key %q: %v", r.Kind, clip(r.Key), err)
		})
	}
}

// decrypted reports what could not be decrypted, or what is damaged in another way.
func (p *exam) decrypted(err error, found func(kind Kind, err error)) {
	switch {
	case err == nil:
	case errors.Is(err, store.ErrSealed):
		found(Undecrypted, err)
	default:
		found(MetaUnreadable, err)
	}
}

// clip shortens a key, which is quoted.
func clip(key string) string { return key[:min(len(key), 100)] }

// belongs returns the partition in which a metadata record belongs, or what is wrong with it. It is negative
// for an unknown kind.
func (p *exam) belongs(r *store.MetaRecord) (at int, err error) {
	at, err = repartition.Place(r, p.n)
	if at == repartition.Anywhere {
		at = p.number
	}
	return at, err
}

// intents counts those of each batch, which come one after the other.
type intents struct {
	id       string
	has, all uint64
}

func (n *intents) add(p *exam, r *store.MetaRecord) {
	all, err := partition.IntentCount(r)
	if err != nil {
		return // it is told of by itself
	}
	if id := partition.IntentID(r.Key); id != n.id {
		n.end(p)
		*n = intents{id: id, all: all}
	}
	n.has++
}

func (n *intents) end(p *exam) {
	if n.has != n.all {
		p.findf(IntentsIncomplete, store.Ref{}, "of batch %q there are %d of %d jobs", n.id, n.has, n.all)
	}
}

// backfills compares the unfinished backfills with jobs that count none.
func (p *exam) backfills(ctx context.Context) error {
	if p.left > 0 {
		return nil // what lacks is not known
	}
	counted := map[carillon.Key]uint32{} // of jobs that count none
	if err := p.eachMeta(ctx, store.KindBackfill, func(r *store.MetaRecord) error {
		rec, ok := unfinished(r)
		if !ok {
			return nil
		}
		job, err := p.jobOf(ctx, rec.Key)
		switch {
		case err != nil:
			return p.unlessDamaged(store.FaultRecordUnreadable, p.faults > 0, err)
		case !job.Exists:
			f := findingOf(BackfillWithoutJob, p.number, store.Ref{Key: rec.Key},
				said("%d of %d runs have begun", rec.Begun, rec.Total))
			return p.mend(ctx, p.number, f, without(r))
		case job.State.Backfills == 0:
			counted[rec.Key]++
		}
		return nil
	}); err != nil {
		return err
	}
	for _, key := range slices.SortedFunc(maps.Keys(counted), compareKeys) {
		job, err := p.jobOf(ctx, key)
		if err != nil {
			return err
		}
		job.State.Backfills, job.Spec = counted[key], nil
		what := said("it counts no unfinished backfills, and has %d", counted[key])
		f := findingOf(BackfillCountWrong, p.number, job.Ref, what)
		if err := p.mend(ctx, p.number, f, &store.Batch{Puts: []store.Record{job}}); err != nil {
			return err
		}
	}
	return nil
}

// unfinished returns an unfinished backfill. One that cannot be decoded is told of by itself.
func unfinished(r *store.MetaRecord) (rec store.Backfill, ok bool) {
	rec, err := codec.DecodeBackfill(r.Value)
	return rec, err == nil && strings.HasPrefix(r.Key, partition.UnfinishedBackfills)
}

func compareKeys(a, b carillon.Key) int { return store.Ref{Key: a}.Compare(store.Ref{Key: b}) }

func (p *exam) jobOf(ctx context.Context, key carillon.Key) (store.Record, error) {
	read, err := p.shard.Read(ctx, []store.Ref{{Key: key}})
	if err != nil {
		return store.Record{}, err
	}
	return read[0], nil
}
