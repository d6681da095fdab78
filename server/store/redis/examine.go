package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/carillonhq/carillon/server/store"
)

var _ store.Examiner = (*Store)(nil)

// Examine implements [store.Examiner]: it reads all keys of a partition, and for each member and field what
// must be beside it.
func (s *Store) Examine(ctx context.Context, partition int, term store.Term,
	found func(store.Fault) error) error {
	if err := s.check(partition); err != nil {
		return err
	}
	x := &examiner{shard: &shard{s: s, number: partition, keys: s.keys[partition], term: term}, found: found,
		lived: map[string]bool{}}
	steps := []func(context.Context) error{x.records, x.specs, x.recordIndexes, x.lives, x.runs, x.runIndexes,
		x.metaRecords, x.mend}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// examiner looks at the keys of one partition. What mends a fault is written before the fault is told, that
// of several at once.
type examiner struct {
	*shard
	found func(store.Fault) error

	mending []string      // arguments of mend.lua
	faults  []store.Fault // that they mend
	lived   map[string]bool
}

// Bounds of a step.
const (
	examinedAtOnce = 512 // members or fields that are read at once
	mendedAtOnce   = 256 // faults that are mended by one script
)

// mendable tells a fault, after it has been mended if the examiner does that: by what to do with a member of
// a sorted set, or with a field of a hash.
func (x *examiner) mendable(ctx context.Context, f store.Fault, what string, key int,
	member, value string) error {
	if x.term.IsZero() {
		return x.found(f)
	}
	x.mending = append(x.mending, what, strconv.Itoa(key+1), member, value)
	if x.faults = append(x.faults, f); len(x.faults) < mendedAtOnce {
		return nil
	}
	return x.mend(ctx)
}

// mend mends the faults found so far, if the term is in force, and tells them.
func (x *examiner) mend(ctx context.Context) error {
	if len(x.faults) == 0 {
		return nil
	}
	term := []string{strconv.FormatUint(x.term.Epoch, 10), strconv.FormatUint(x.term.Nonce, 10)}
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	done, err := mendScript.Exec(ctx, x.s.client, x.keys, append(term, x.mending...)).AsInt64()
	switch {
	case err != nil:
		return applyFailure(err)
	case done == 0:
		return store.ErrFenced
	}
	faults := x.faults
	x.faults, x.mending = nil, nil
	for _, f := range faults {
		f.Mended = true
		if err := x.found(f); err != nil {
			return err
		}
	}
	return nil
}

// members calls f with all members of a sorted set, page by page.
func (x *examiner) members(ctx context.Context, key int, f func(page []string) error) error {
	for from := "-"; ; {
		page, err := ask(ctx, x.s, func(ctx context.Context) ([]string, error) {
			c := x.s.client.B().Zrange().Key(x.keys[key]).Min(from).Max("+").Bylex().Limit(0, examinedAtOnce).Build()
			return unlessNil(x.s.client.Do(ctx, c).AsStrSlice())
		})
		if err != nil || len(page) == 0 {
			return err
		}
		if err := f(page); err != nil {
			return err
		}
		from = "(" + page[len(page)-1]
	}
}

// fields calls f with all fields of a hash and their values, page by page. Nobody else writes meanwhile, so
// each comes once, or again after one that was mended.
func (x *examiner) fields(ctx context.Context, key int, f func(fields, values []string) error) error {
	for cursor := uint64(0); ; {
		page, err := ask(ctx, x.s, func(ctx context.Context) (rueidis.ScanEntry, error) {
			c := x.s.client.B().Hscan().Key(x.keys[key]).Cursor(cursor).Count(examinedAtOnce).Build()
			return x.s.client.Do(ctx, c).AsScanEntry()
		})
		if err != nil {
			return err
		}
		var fields, values []string
		for i := 0; i+1 < len(page.Elements); i += 2 {
			fields, values = append(fields, page.Elements[i]), append(values, page.Elements[i+1])
		}
		if len(fields) > 0 {
			if err := f(fields, values); err != nil {
				return err
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

// values reads fields of a hash; nil: it is not there.
func (x *examiner) values(ctx context.Context, key int, fields []string) ([]*string, error) {
	return x.all(ctx, fields, x.s.client.B().Hmget().Key(x.keys[key]).Field(fields...).Build)
}

// present reads which members a sorted set has; nil: it has not.
func (x *examiner) present(ctx context.Context, key int, members []string) ([]*string, error) {
	return x.all(ctx, members, x.s.client.B().Zmscore().Key(x.keys[key]).Member(members...).Build)
}

func (x *examiner) all(ctx context.Context, of []string,
	command func() rueidis.Completed) ([]*string, error) {
	if len(of) == 0 {
		return nil, nil
	}
	got, err := ask(ctx, x.s, func(ctx context.Context) ([]rueidis.RedisMessage, error) {
		return x.s.client.Do(ctx, command()).ToArray()
	})
	if err != nil {
		return nil, err
	}
	if len(got) != len(of) {
		return nil, fmt.Errorf("%w: %d answers for %d questions", store.ErrDamaged, len(got), len(of))
	}
	out := make([]*string, len(of))
	for i := range got {
		if got[i].IsNil() {
			continue
		}
		text, err := got[i].ToString()
		if err != nil {
			text = "" // a score, as RESP 3 has it
		}
		out[i] = &text
	}
	return out, nil
}

// wanted is a member of a sorted set that must be there.
type wanted struct {
	member string
	fault  store.Fault
}

// lacking tells of what is wanted and not there.
func (x *examiner) lacking(ctx context.Context, all map[int][]wanted) error {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		var members []string
		for _, w := range all[key] {
			members = append(members, w.member)
		}
		there, err := x.present(ctx, key, members)
		if err != nil {
			return err
		}
		for i, w := range all[key] {
			if there[i] != nil {
				continue
			}
			if err := x.mendable(ctx, w.fault, "zadd", key, w.member, ""); err != nil {
				return err
			}
		}
	}
	return nil
}
