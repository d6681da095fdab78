package cassandra

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// member is a row of the table members.
type member struct {
	store.Member
	lease
	nonce *int64
}

// readMembers reads all members, also those that live no more.
func (l leaser) readMembers(ctx context.Context) (out []member, err error) {
	err = l.wire.each(ctx, l.wire.levels.regular,
		statement{text: `SELECT id, address, http, sidecars, capacity, nonce, settings, state, until, given FROM $members ` +
			`WHERE cluster = 0`}, func() { out = out[:0] },
		func(scan func(...any) error) error {
			var m member
			err := scan(&m.ID, &m.Address, &m.HTTP, &m.Sidecars, &m.Capacity, &m.nonce, &m.Settings, &m.State,
				&m.until, &m.given)
			if m.nonce != nil {
				m.Nonce = uint64(*m.nonce)
				out = append(out, m)
			}
			return err
		})
	return out, err
}

// write is the statement that writes a member, if its row is as it was read.
func (m *member) write(as store.Member, until lease) statement {
	return statement{`UPDATE $members SET address = ?, http = ?, sidecars = ?, capacity = ?, nonce = ?, settings = ?, state = ?, ` +
		`until = ?, given = ? WHERE cluster = 0 AND id = ? IF nonce = ? AND until = ?`,
		[]any{as.Address, as.HTTP, as.Sidecars, as.Capacity, int64(as.Nonce), []byte(as.Settings), []byte(as.State),
			until.until, until.given, as.ID, m.nonce, m.until}}
}

// Join writes the member, unless another with its id lives.
func (l leaser) Join(ctx context.Context, m store.Member, ttl time.Duration) error {
	return l.write(ctx, m, ttl, false)
}

// Retire writes a member that is to own nothing, if another living member has a capacity above 0.
func (l leaser) Retire(ctx context.Context, m store.Member, ttl time.Duration) error {
	return l.write(ctx, m, ttl, true)
}

// write writes a member. One that retires also compares the row of a member that stays: of two that retire at
// once, each on account of the other, only one does.
func (l leaser) write(ctx context.Context, m store.Member, ttl time.Duration, retires bool) error {
	done, err := l.calls.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	return l.change(ctx, func() (statements []statement, err error) {
		all, err := l.readMembers(ctx)
		if err != nil {
			return nil, failure(err)
		}
		var mine member
		now, stays := l.clock.Time(), false
		for i := range all {
			f := &all[i]
			lives := f.lasts(now)
			switch {
			case f.ID == m.ID && f.Nonce != m.Nonce && lives:
				return nil, store.ErrTaken
			case f.ID == m.ID:
				mine = *f
			case retires && !stays && lives && f.Capacity > 0:
				stays = true
				statements = append(statements, f.write(f.Member, f.lease))
			}
		}
		if retires && !stays {
			return nil, store.ErrLast
		}
		return append(statements, mine.write(m, lasting(now, ttl))), nil
	})
}

// Leave removes the member of that nonce; 0 is any.
func (l leaser) Leave(ctx context.Context, id string, nonce uint64) error {
	done, err := l.calls.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	return l.change(ctx, func() ([]statement, error) {
		all, err := l.readMembers(ctx)
		if err != nil {
			return nil, failure(err)
		}
		for i := range all {
			if f := &all[i]; f.ID == id && (nonce == 0 || f.Nonce == nonce) {
				return []statement{{`DELETE FROM $members WHERE cluster = 0 AND id = ? IF nonce = ? AND until = ?`,
					[]any{id, f.nonce, f.until}}}, nil
			}
		}
		return nil, nil
	})
}

// Members returns those that live, by id.
func (l leaser) Members(ctx context.Context) ([]store.Member, error) {
	done, err := l.calls.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	all, err := l.readMembers(ctx)
	if err != nil {
		return nil, failure(err)
	}
	var out []store.Member
	for now, i := l.clock.Time(), 0; i < len(all); i++ {
		if all[i].lasts(now) {
			out = append(out, all[i].Member)
		}
	}
	slices.SortFunc(out, func(a, b store.Member) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}
