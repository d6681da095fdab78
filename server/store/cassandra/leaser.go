package cassandra

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// leaser keeps members and owners as rows that say until when they are valid, by the store's clock. Each
// change reads what is there, decides, and writes if nothing has changed meanwhile; otherwise it begins
// again.
type leaser struct{ *Store }

var _ store.Leaser = leaser{}

// errContended says that others always came first.
var errContended = errors.New("others changed the same rows between read and write, in every try; try again")

// mostTries is how often a change is begun again.
const mostTries = 20

// lease is until when something is valid by the store's clock.
type lease struct {
	until *time.Time // to the millisecond, as Cassandra keeps it
	given *float64   // seconds that it was given for
}

// lasting is a lease of some time from now.
func lasting(now time.Time, ttl time.Duration) lease {
	until, given := now.Add(ttl).Truncate(time.Millisecond).Add(time.Millisecond).UTC(), ttl.Seconds()
	if ttl <= 0 {
		until = now.Truncate(time.Millisecond).UTC()
	}
	return lease{&until, &given}
}

// lasts reports whether the lease is valid. One that has longer to go than it was given for, by far, was
// given before the clock was set back.
func (l *lease) lasts(now time.Time) bool {
	return l.until != nil && l.given != nil && now.Before(*l.until) && l.until.Sub(now).Seconds() < 2**l.given+1
}

// Now is the store's clock.
func (l leaser) Now(ctx context.Context) (time.Time, error) {
	done, err := l.calls.Begin(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer done()
	// A node asks to find out how far its clock is off. Without Cassandra it is to find out nothing.
	if _, err := l.readStore(ctx); err != nil {
		return time.Time{}, failure(err)
	}
	return l.clock.Time(), nil
}

// change reads and writes until a write is applied. decide reads the rows and returns conditional statements.
// If somebody has changed the rows meanwhile, decide is called again. If it returns none, change is done.
func (l leaser) change(ctx context.Context, decide func() ([]statement, error)) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	for try := range mostTries {
		if err := l.isSame(ctx); err != nil {
			return err
		}
		statements, err := decide()
		if err != nil || len(statements) == 0 {
			return err
		}
		done, err := l.wire.cas(ctx, statements...)
		if err != nil {
			return failure(err)
		}
		if done {
			return nil
		}
		wait := time.NewTimer(rand.N(firstPause << min(try, 4)))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		}
	}
	return failure(errContended)
}

// owner is who owns a partition.
type owner struct {
	node         string
	epoch, nonce *int64 // nil: nobody ever has
	lease
	first *int
}

func (o *owner) term() store.Term {
	if o.epoch == nil || o.nonce == nil {
		return store.Term{}
	}
	return store.Term{Epoch: uint64(*o.epoch), Nonce: uint64(*o.nonce)}
}

// readOwners reads who owns the partitions.
func (l leaser) readOwners(ctx context.Context) (map[int]owner, error) {
	out := map[int]owner{}
	err := l.wire.each(ctx, l.wire.levels.regular,
		statement{text: `SELECT partition, node, epoch, nonce, until, given, first FROM $owners WHERE cluster = 0`},
		func() { clear(out) }, func(scan func(...any) error) error {
			var p int
			var o owner
			err := scan(&p, &o.node, &o.epoch, &o.nonce, &o.until, &o.given, &o.first)
			out[p] = o
			return err
		})
	return out, err
}

// write is the statement that changes an owner, if it is as it was read.
func (o *owner) write(p int, node string, term store.Term, until lease, first int) statement {
	return statement{`UPDATE $owners SET node = ?, epoch = ?, nonce = ?, until = ?, given = ?, first = ? ` +
		`WHERE cluster = 0 AND partition = ? IF epoch = ? AND nonce = ? AND until = ? AND first = ?`,
		[]any{node, int64(term.Epoch), int64(term.Nonce), until.until, until.given, first,
			p, o.epoch, o.nonce, o.until, o.first}}
}

// firstSegment is the first segment of an owner's log.
func (o *owner) firstSegment() int {
	if o.first == nil {
		return 1
	}
	return *o.first
}

// Claim takes each partition that is free, expired or the node's own.
func (l leaser) Claim(ctx context.Context, node string, partitions []int,
	ttl time.Duration) ([]store.Term, error) {
	done, err := l.calls.Begin(ctx, partitions...)
	if err != nil {
		return nil, err
	}
	defer done()
	terms := make([]store.Term, len(partitions))
	all, err := l.take(ctx, node, partitions, ttl, terms)
	if err != nil {
		return nil, err
	}
	began := make([]bool, len(partitions))
	err = forEach(len(partitions), atOnce, func(i int) (err error) {
		if !terms[i].IsZero() {
			o := all[partitions[i]]
			began[i], err = l.replicas[partitions[i]].fence(ctx, terms[i], &o)
		}
		if errors.Is(err, errLost) {
			terms[i], err = store.Term{}, nil
		}
		return err
	})
	if err == nil {
		err = l.confirm(ctx, partitions, terms, began)
	}
	if err != nil {
		return nil, err
	}
	for i, p := range partitions {
		if !terms[i].IsZero() {
			l.replicas[p].own(terms[i])
		}
	}
	return terms, nil
}

// take claims partitions and sets their terms, and returns who owned them before. The terms are in force when
// they are in the logs.
func (l leaser) take(ctx context.Context, node string, partitions []int, ttl time.Duration,
	terms []store.Term) (all map[int]owner, err error) {
	err = l.change(ctx, func() (statements []statement, err error) {
		if all, err = l.readOwners(ctx); err != nil {
			return nil, failure(err)
		}
		now := l.clock.Time()
		for i, p := range partitions {
			o := all[p]
			terms[i] = store.Term{}
			if o.node != "" && o.node != node && o.lasts(now) {
				continue
			}
			// Also after a restore of a backup an epoch is greater than those that were lost.
			terms[i] = store.Term{Epoch: max(o.term().Epoch+1, uint64(now.Unix())), Nonce: nonce()}
			statements = append(statements, o.write(p, node, terms[i], lasting(now, ttl), o.firstSegment()))
		}
		return statements, nil
	})
	return all, err
}

// nonce draws a nonce, which is not 0: that is nobody's.
func nonce() uint64 { return 1 + rand.Uint64N(math.MaxInt64) }

// confirm withdraws the terms of logs that this claim began, if the partition has another owner by now. begin
// only sees that there is no segment 1, and so it is again long after an owner has deleted it.
func (l leaser) confirm(ctx context.Context, partitions []int, terms []store.Term, began []bool) error {
	var all map[int]owner
	for i, p := range partitions {
		if !began[i] {
			continue
		}
		if all == nil {
			var err error
			if all, err = l.readOwners(ctx); err != nil {
				return failure(err)
			}
		}
		if o := all[p]; o.term() != terms[i] {
			terms[i] = store.Term{}
		}
	}
	return nil
}

// numbers are the partitions that are held.
func numbers(held []store.Holding) []int {
	out := make([]int, len(held))
	for i, h := range held {
		out[i] = h.Partition
	}
	return out
}

// held calls f for each of the partitions that is still held, with what is known of it, and writes what that
// returns. It returns which are held.
func (l leaser) held(ctx context.Context, node string, held []store.Holding,
	f func(p int, o owner) statement) (still []bool, err error) {
	done, err := l.calls.Begin(ctx, numbers(held)...)
	if err != nil {
		return nil, err
	}
	defer done()
	still = make([]bool, len(held))
	err = l.change(ctx, func() (statements []statement, err error) {
		all, err := l.readOwners(ctx)
		if err != nil {
			return nil, failure(err)
		}
		for i, h := range held {
			o := all[h.Partition]
			if o.node != node {
				l.replicas[h.Partition].disown(h.Term)
			}
			if still[i] = node != "" && o.node == node && o.term() == h.Term; still[i] {
				statements = append(statements, f(h.Partition, o))
			}
		}
		return statements, nil
	})
	return still, err
}

// extend renews the leases if all of them are held, without reading them first: a node that renews must not
// wait longer than it has to.
func (l leaser) extend(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) (bool, error) {
	done, err := l.calls.Begin(ctx, numbers(held)...)
	if err != nil {
		return false, err
	}
	defer done()
	if len(held) == 0 {
		return true, nil
	}
	until := lasting(l.clock.Time(), ttl)
	statements := make([]statement, len(held))
	for i, h := range held {
		statements[i] = statement{`UPDATE $owners SET until = ?, given = ? WHERE cluster = 0 AND partition = ? ` +
			`IF node = ? AND epoch = ? AND nonce = ?`,
			[]any{until.until, until.given, h.Partition, node, int64(h.Term.Epoch), int64(h.Term.Nonce)}}
	}
	l.changing.Lock()
	defer l.changing.Unlock()
	all, err := l.wire.cas(ctx, statements...)
	if err != nil {
		return false, failure(err)
	}
	if all {
		l.health.Same()
	}
	return all, nil
}

// Renew extends the leases and returns those that are lost.
func (l leaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) (lost []store.Holding, err error) {
	if node != "" {
		if all, err := l.extend(ctx, node, held, ttl); all || err != nil {
			return nil, err
		}
	}
	still, err := l.held(ctx, node, held, func(p int, o owner) statement {
		return o.write(p, node, o.term(), lasting(l.clock.Time(), ttl), o.firstSegment())
	})
	if err != nil {
		return nil, err
	}
	for i, h := range held {
		if !still[i] {
			lost = append(lost, h)
		}
	}
	return lost, nil
}

// Release frees the partitions that are still held. Their terms are taken out of force first.
func (l leaser) Release(ctx context.Context, node string, held []store.Holding) error {
	if err := l.unfence(ctx, node, held); err != nil {
		return err
	}
	still, err := l.held(ctx, node, held, func(p int, o owner) statement {
		return o.write(p, "", o.term(), lease{new(time.Time), o.given}, o.firstSegment())
	})
	if err != nil {
		return err
	}
	for i, h := range held {
		if still[i] {
			l.replicas[h.Partition].disown(h.Term)
		}
	}
	return nil
}

// unfence takes the terms of partitions out of force that a node still holds.
func (l leaser) unfence(ctx context.Context, node string, held []store.Holding) error {
	done, err := l.calls.Begin(ctx, numbers(held)...)
	if err != nil {
		return err
	}
	defer done()
	all, err := l.readOwners(ctx)
	if err != nil {
		return failure(err)
	}
	return forEach(len(held), atOnce, func(i int) error {
		h := held[i]
		if o := all[h.Partition]; node == "" || o.node != node || o.term() != h.Term {
			return nil
		}
		return l.replicas[h.Partition].unfence(ctx, h.Term)
	})
}

// Owners returns every partition that was ever claimed, by number.
func (l leaser) Owners(ctx context.Context) ([]store.Owner, error) {
	done, err := l.calls.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	all, err := l.readOwners(ctx)
	if err != nil {
		return nil, failure(err)
	}
	var out []store.Owner
	for p := range l.meta.Partitions {
		o, ok := all[p]
		if !ok || o.epoch == nil {
			continue
		}
		found := store.Owner{Partition: p, Term: o.term(), Node: o.node}
		if o.until != nil && o.node != "" {
			found.Until = *o.until
		}
		out = append(out, found)
	}
	return out, nil
}
