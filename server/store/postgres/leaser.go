package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/server/store"
)

// leaser is the store as a Leaser. The server's clock is the store's: clock_timestamp, which goes on within a
// transaction.
type leaser Store

var _ store.Leaser = (*leaser)(nil)

// leaseTries is how often a statement is tried again that the server has rolled back, or that met a broken
// connection.
const leaseTries = 4

// lastsSQL is whether what was renewed for a time lasts still. A server's clock that was set back would have
// it last as much longer: so it does not from before it was renewed on, by more than the same time again.
const lastsSQL = `(clock_timestamp() < %[1]s.until AND clock_timestamp() > %[1]s.renewed - (%[1]s.until - %[1]s.renewed))`

// lasts is lastsSQL of a table, under its name in a statement.
func lasts(table string) string { return fmt.Sprintf(lastsSQL, table) }

// inForceSQL is whether the term of an owner is in force where the statement is done. After a failover, or
// the return of an older copy, the table may have the term of an owner that remembers more than the table
// does: but it was given by another server, or by one that has been started again since, or is in another
// place than hereSQL said when it was written. A table that was made again or emptied has another file, as
// has one in a copy of the database; a row that was put back is of another transaction.
const inForceSQL = `o.node <> '' AND o.server = pg_postmaster_start_time() AND o.place = pg_relation_filepath(o.tableoid) || ' ' || o.xmin`

// hereSQL is the place of a row of owners that is being written; xmin has the lower half of the transaction's
// number.
const hereSQL = `pg_relation_filepath(o.tableoid) || ' ' || (txid_current() & 4294967295)`

// The statements. Rows of owners are locked in order of their numbers, as the fence of a write locks them.
var (
	writeSQL = `
INSERT INTO carillon_members AS m (id, address, http, sidecars, capacity, nonce, settings, state, renewed, until)
SELECT $1, $2, $3, $4, $5::int, $6::bigint, $7, $11, t.now, t.now + $8::bigint * interval '1 microsecond' FROM clock_timestamp() AS t (now)`

	overSQL = `
ON CONFLICT (id) DO UPDATE SET address = EXCLUDED.address, http = EXCLUDED.http, sidecars = EXCLUDED.sidecars, capacity = EXCLUDED.capacity,
	nonce = EXCLUDED.nonce, settings = EXCLUDED.settings, state = EXCLUDED.state, renewed = EXCLUDED.renewed, until = EXCLUDED.until
WHERE m.nonce = EXCLUDED.nonce OR NOT ` + lasts("m") + ` RETURNING true`

	// Of another store than was opened nobody becomes a member: others would leave partitions to a node that
	// may not take them.
	openedSQL = `
WITH opened AS MATERIALIZED (SELECT FROM carillon_meta WHERE partitions = $9 AND key_6 = $10),`

	writtenSQL = `
SELECT CASE WHEN EXISTS (SELECT FROM written) THEN 'written' WHEN NOT EXISTS (SELECT FROM opened) THEN 'replaced'`

	joinSQL = openedSQL + `
written AS (` + writeSQL + `, opened` + overSQL + `)` + writtenSQL + ` ELSE 'taken' END`

	// Whoever may own something is locked, in order of the ids, until the member that retires is written: of
	// two that retire at once the second waits for the first, and sees what that has written. Rows are read,
	// and locked, until one is another's.
	retireSQL = openedSQL + `
able AS MATERIALIZED (
	SELECT id FROM carillon_members AS m WHERE capacity > 0 AND ` + lasts("m") + ` ORDER BY id FOR UPDATE),
other AS MATERIALIZED (SELECT FROM able WHERE id <> $1 LIMIT 1),
written AS (` + writeSQL + `, opened, other` + overSQL + `)` + writtenSQL + `
	WHEN EXISTS (SELECT FROM other) THEN 'taken' ELSE 'last' END`

	leaveSQL = `DELETE FROM carillon_members WHERE id = $1 AND (nonce = $2 OR $2 = 0)`

	membersSQL = `
SELECT id, address, http, sidecars, capacity, nonce, settings, state FROM carillon_members AS m WHERE ` +
		lasts("m") + ` ORDER BY id`

	forgetSQL = `DELETE FROM carillon_members WHERE until < clock_timestamp() - interval '1 day'`

	heldSQL = `
WITH held AS MATERIALIZED (
	SELECT o.partition, t.epoch, t.nonce FROM unnest($2::int[], $3::bigint[], $4::bigint[]) AS t (partition, epoch, nonce)
	JOIN carillon_owners o ON o.partition = t.partition AND o.epoch = t.epoch AND o.nonce = t.nonce
	WHERE o.node = $1 AND ` + inForceSQL + ` ORDER BY o.partition FOR UPDATE OF o)`

	renewSQL = heldSQL + `
UPDATE carillon_owners o SET renewed = t.now, until = t.now + $5::bigint * interval '1 microsecond', place = ` + hereSQL + `
FROM held, clock_timestamp() AS t (now) WHERE o.partition = held.partition RETURNING o.partition, o.epoch, o.nonce`

	releaseSQL = heldSQL + `
UPDATE carillon_owners o SET node = '', renewed = NULL, until = NULL FROM held WHERE o.partition = held.partition
RETURNING o.partition, o.epoch, o.nonce`

	ownersSQL = `SELECT partition, epoch, nonce, node, until FROM carillon_owners WHERE epoch > 0 AND partition < $1 ORDER BY partition`
)

// ask does a statement of the leaser that only reads: that it succeeds does not say that the store writes.
func ask[T any](ctx context.Context, l *leaser, what string, scan pgx.RowToFunc[T],
	sql string, args ...any) ([]T, error) {
	return asked(ctx, (*Store)(l), what, leaseTries, func(ctx context.Context) ([]T, error) {
		return rowsOf(ctx, l.leases, scan, sql, args)
	})
}

// write does a statement of the leaser that writes.
func write[T any](ctx context.Context, l *leaser, what string, scan pgx.RowToFunc[T],
	sql string, args ...any) ([]T, error) {
	out, err := ask(ctx, l, what, scan, sql, args...)
	l.heed(err)
	return out, err
}

// heed tells of how a write ended, unless its caller has gone.
func (l *leaser) heed(err error) {
	if !errors.Is(err, context.Canceled) {
		(*Store)(l).heed(err)
	}
}

// nothing is what a statement without rows gives.
func nothing(pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil }

// Now is the server's clock.
func (l *leaser) Now(ctx context.Context) (time.Time, error) {
	now, err := ask(ctx, l, "read the clock", pgx.RowTo[time.Time], "SELECT clock_timestamp()")
	if err != nil {
		return time.Time{}, err
	}
	return now[0], nil
}

// Join writes or renews the member, unless another with its id lives.
func (l *leaser) Join(ctx context.Context, m store.Member, ttl time.Duration) error {
	return l.write(ctx, "join", joinSQL, m, ttl)
}

// write has a statement write a member, which says what came of it.
func (l *leaser) write(ctx context.Context, what, sql string, m store.Member, ttl time.Duration) error {
	outcome, err := ask(ctx, l, what, pgx.RowTo[string], sql, m.ID, m.Address, m.HTTP, m.Sidecars, m.Capacity,
		int64(m.Nonce), m.Settings,
		interval(ttl), l.meta.Partitions, l.meta.MACKey, m.State)
	switch {
	case err != nil:
	case outcome[0] == "replaced":
		err = failed(what, ErrReplaced)
	default:
		l.health.Same()
	}
	l.heed(err)
	switch {
	case err != nil:
		return err
	case outcome[0] == "last":
		return store.ErrLast
	case outcome[0] == "taken":
		return store.ErrTaken
	}
	return nil
}

// Retire writes the member if another may own something.
func (l *leaser) Retire(ctx context.Context, m store.Member, ttl time.Duration) error {
	return l.write(ctx, "retire", retireSQL, m, ttl)
}

// Leave removes the member of that nonce, 0 is any, and those who left without a word long ago.
func (l *leaser) Leave(ctx context.Context, id string, nonce uint64) error {
	if _, err := write(ctx, l, "leave", nothing, leaveSQL, id, int64(nonce)); err != nil {
		return err
	}
	_, err := write(ctx, l, "forget old members", nothing, forgetSQL)
	return err
}

// Members returns those that live, by id.
func (l *leaser) Members(ctx context.Context) ([]store.Member, error) {
	return ask(ctx, l, "read the members", func(row pgx.CollectableRow) (m store.Member, err error) {
		var nonce int64
		err = row.Scan(&m.ID, &m.Address, &m.HTTP, &m.Sidecars, &m.Capacity, &nonce, &m.Settings, &m.State)
		m.Nonce = uint64(nonce)
		return m, err
	}, membersSQL)
}

// scanHolding reads partition, epoch and nonce.
func scanHolding(row pgx.CollectableRow) (h store.Holding, err error) {
	var epoch, nonce int64
	err = row.Scan(&h.Partition, &epoch, &nonce)
	h.Term = store.Term{Epoch: uint64(epoch), Nonce: uint64(nonce)}
	return h, err
}

// Renew extends the leases and returns those that are lost.
func (l *leaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) ([]store.Holding, error) {
	got, err := l.held(ctx, "renew leases", renewSQL, node, held, interval(ttl))
	if err != nil {
		return nil, err
	}
	kept := make(map[store.Holding]bool, len(got))
	for _, h := range got {
		kept[h] = true
	}
	var lost []store.Holding
	for _, h := range held {
		if !kept[h] {
			lost = append(lost, h)
		}
	}
	return lost, nil
}

// Release frees the partitions that are still held.
func (l *leaser) Release(ctx context.Context, node string, held []store.Holding) error {
	_, err := l.held(ctx, "release partitions", releaseSQL, node, held)
	return err
}

// held does something to what is still held, and returns it.
func (l *leaser) held(ctx context.Context, what, sql, node string, held []store.Holding,
	more ...any) ([]store.Holding, error) {
	var terms columns
	for _, h := range held {
		if err := (*Store)(l).known(h.Partition); err != nil {
			return nil, err
		}
		terms.addTerm(h.Partition, h.Term)
	}
	if len(held) == 0 {
		return nil, ctx.Err()
	}
	return write(ctx, l, what, scanHolding, sql, append(terms.after(node), more...)...)
}

// Owners returns every partition that was ever claimed, by number.
func (l *leaser) Owners(ctx context.Context) ([]store.Owner, error) {
	return ask(ctx, l, "read the owners", func(row pgx.CollectableRow) (o store.Owner, err error) {
		var epoch, nonce int64
		var until *time.Time
		err = row.Scan(&o.Partition, &epoch, &nonce, &o.Node, &until)
		o.Term = store.Term{Epoch: uint64(epoch), Nonce: uint64(nonce)}
		if until != nil {
			o.Until = *until
		}
		return o, err
	}, ownersSQL, l.meta.Partitions)
}
