package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// atOnce is how many records are read at a time.
const atOnce = 1000

// Examine reads all chains of a partition, in the order of their names, and compares them with heads that
// were noted elsewhere. Entries may be added and removed meanwhile. What the store has lost is told of as
// what is wrong with a chain.
func Examine(ctx context.Context, shard store.Shard, partition int,
	noted map[string][]carillon.AuditHead) ([]carillon.AuditChain, error) {
	names, skipped, lost, err := chains(ctx, shard)
	if err != nil {
		return nil, err
	}
	all := make([]carillon.AuditChain, 0, len(names))
	for _, name := range names {
		c, err := examine(ctx, shard, partition, name, noted[name])
		if err != nil {
			return nil, err
		}
		all = append(all, c)
		if lost == nil && c.Broken == "" { // then what was skipped may be of a chain whose record is gone
			lost = skipped[name]
		}
	}
	if lost != nil {
		all = append(all, carillon.AuditChain{Partition: partition,
			Broken: fmt.Sprintf("there may be more chains, whose names cannot be read: %v", lost)})
	}
	return all, nil
}

// Names returns the names of the chains of a partition that can be found, also if the store has lost some of
// what it had.
func Names(ctx context.Context, shard store.Shard) ([]string, error) {
	names, _, _, err := chains(ctx, shard)
	return names, err
}

// chains returns the names of all chains, also of those of which only the record or only entries are there.
// skipped says of chains that there is damage in their entries, or in those of another chain next to them.
// lost is why there may be other chains.
func chains(ctx context.Context, shard store.Shard) (names []string, skipped map[string]error, lost,
	err error) {
	skipped = map[string]error{}
	for after := ""; ; {
		q := store.MetaQuery{Kind: store.KindAuditChain, After: after, Limit: atOnce}
		page, err := shard.MetaRecords(ctx, q)
		if errors.Is(err, store.ErrDamaged) {
			lost = err
			break
		}
		if err != nil {
			return nil, nil, nil, err
		}
		for _, r := range page {
			names = append(names, r.Key)
		}
		if len(page) < atOnce {
			break
		}
		after = page[len(page)-1].Key
	}
	recorded := names
	for after := ""; ; {
		page, err := shard.MetaRecords(ctx, store.MetaQuery{Kind: store.KindAudit, After: after, Limit: 1})
		if errors.Is(err, store.ErrDamaged) {
			// It goes on behind the next chain that is known: if the damage is there, it is found with it. It may
			// also be before it, or behind it if that has no entries.
			i := slices.IndexFunc(recorded, func(name string) bool { return name+"/\xff" > after })
			if i < 0 {
				lost = err
				break
			}
			skipped[recorded[i]], after = err, recorded[i]+"/\xff"
			continue
		}
		if err != nil {
			return nil, nil, nil, err
		}
		if len(page) == 0 {
			break
		}
		name, _, _ := strings.Cut(page[0].Key, "/")
		names, after = append(names, name), name+"/\xff"
	}
	slices.Sort(names)
	return slices.Compact(names), skipped, lost, nil
}

// Chain reads the record of a chain; nil: there is none, or it is damaged.
func Chain(ctx context.Context, shard store.Shard, name string) (*store.AuditChain, error) {
	page, err := shard.MetaRecords(ctx, store.MetaQuery{Kind: store.KindAuditChain, Prefix: name, Limit: 1})
	if errors.Is(err, store.ErrDamaged) {
		return nil, nil
	}
	if err != nil || len(page) == 0 || page[0].Key != name {
		return nil, err
	}
	c, err := codec.DecodeAuditChain(page[0].Value)
	if err != nil {
		return nil, nil //nolint:nilerr // it is damaged
	}
	return &c, nil
}

// tries is how often a chain is read from which retention removes entries meanwhile.
const tries = 5

func examine(ctx context.Context, shard store.Shard, partition int, name string,
	noted []carillon.AuditHead) (found carillon.AuditChain, err error) {
	for range tries {
		c, err := Chain(ctx, shard, name)
		if err != nil || c == nil {
			return Orphan(name, partition), err
		}
		v := NewVerifier(name, c, noted)
		beyond, err := feed(ctx, shard, v, name)
		if err != nil {
			return found, err
		}
		if found = v.End(partition); found.Broken == "" && beyond == nil {
			return found, nil
		}
		now, err := Chain(ctx, shard, name)
		if err != nil || now == nil {
			return Orphan(name, partition), err
		}
		switch {
		case now.First != c.First:
			continue // entries were removed meanwhile
		case now.Last == c.Last && beyond != nil: // it was not added meanwhile
			v.Take(beyond)
			found = v.End(partition)
		}
		return found, nil
	}
	return found, nil
}

// feed gives the verifier the entries of a chain, up to its end; beyond is the first one after that.
func feed(ctx context.Context, shard store.Shard, v *Verifier,
	name string) (beyond *store.MetaRecord, err error) {
	q := store.MetaQuery{Kind: store.KindAudit, Prefix: name + "/", Limit: atOnce}
	ahead := 0 // among so many entries some could not be read
	for {
		page, err := shard.MetaRecords(ctx, q)
		switch {
		case errors.Is(err, store.ErrDamaged) && q.Limit > 1:
			if q.Limit == atOnce {
				ahead = atOnce
			}
			q.Limit /= 2 // where is it?
			continue
		case errors.Is(err, store.ErrDamaged):
			v.Lost()
			return nil, nil
		case err != nil:
			return nil, err
		}
		for i := range page {
			if _, n, ok := store.ParseAuditKey(page[i].Key); ok && n > v.chain.Last {
				return &page[i], nil
			}
			v.Take(&page[i])
		}
		if len(page) < q.Limit {
			return nil, nil
		}
		q.After = page[len(page)-1].Key
		if ahead -= len(page); ahead <= 0 { // they can be read by now
			q.Limit = atOnce
		}
	}
}
