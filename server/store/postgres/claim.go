package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/server/store"
)

// patience is how long a claim waits for a lock before it ends sessions that hold it and wait for their
// clients. A group is on its way for some milliseconds; the lease of its owner has ended by then.
const patience = time.Second

var (
	// An epoch is at least the seconds since 1970: also one that is given after a failover, or in an older
	// copy of the table, is greater than those that were lost.
	claimSQL = `
WITH free AS MATERIALIZED (
	SELECT o.partition, t.nonce FROM unnest($2::int[], $3::bigint[]) AS t (partition, nonce)
	JOIN carillon_owners o ON o.partition = t.partition
	WHERE o.node = '' OR o.node = $1 OR NOT ` + lasts("o") + `
	ORDER BY o.partition FOR UPDATE OF o)
UPDATE carillon_owners o SET epoch = greatest(o.epoch + 1, floor(extract(epoch FROM t.now))::bigint), nonce = free.nonce, node = $1,
	renewed = t.now, until = t.now + $4::bigint * interval '1 microsecond', server = pg_postmaster_start_time(), place = ` + hereSQL + `
FROM free, clock_timestamp() AS t (now) WHERE o.partition = free.partition RETURNING o.partition, o.epoch, o.nonce`

	// Who takes partitions must have opened this very store: another may have been made in its place, with
	// other partitions. And its sessions must be what they were made: a pooler may give it another one for
	// each transaction.
	sessionOfSQL = `
SELECT pg_backend_pid(), pg_postmaster_start_time(), EXISTS (SELECT FROM carillon_meta WHERE partitions = $1 AND key_6 = $2),
	` + wholeSQL

	// A session of ours that blocks a claim and waits for its client is that of a node that was stopped in
	// the middle of a group: no timeout of the server's ends it, and the client's machine still answers. One
	// that waits for another lock, as another claim does, or works, is left alone.
	endBlockersSQL = `
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = ANY(pg_blocking_pids($1)) AND wait_event_type = 'Client' AND xact_start <= clock_timestamp() - $2::bigint * interval '1 microsecond'
	AND datname = current_database() AND usename = current_user AND application_name = current_setting('application_name')`
)

// wholeSQL is whether a session is what it was made.
const wholeSQL = `current_setting('carillon.session', true) IS NOT DISTINCT FROM 'set'`

// errSession ends a claim, or the write of an object, in a session that has lost what was set when it was
// made.
var errSession = errors.New("the session has lost its settings: " +
	"a pooler between here and PostgreSQL must keep sessions (PgBouncer: pool_mode = session)")

// Claim takes each partition that is free, expired or the node's own.
func (l *leaser) Claim(ctx context.Context, node string, partitions []int,
	ttl time.Duration) ([]store.Term, error) {
	nonces := make([]int64, len(partitions))
	for i, p := range partitions {
		if err := (*Store)(l).known(p); err != nil {
			return nil, err
		}
		nonces[i] = int64(rand.Uint64()) // seeded by the operating system
	}
	take := func(ctx context.Context) ([]store.Holding, error) {
		return l.claimRows(ctx, node, partitions, nonces, interval(ttl))
	}
	got, err := asked(ctx, (*Store)(l), "claim partitions", leaseTries, take)
	l.heed(err)
	if err != nil {
		return nil, err
	}
	terms := make(map[int]store.Term, len(got))
	for _, h := range got {
		terms[h.Partition] = h.Term
	}
	out := make([]store.Term, len(partitions))
	for i, p := range partitions {
		out[i] = terms[p]
	}
	return out, nil
}

// claimRows takes partitions, and ends who blocks it.
func (l *leaser) claimRows(ctx context.Context, args ...any) ([]store.Holding, error) {
	conn, err := l.leases.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	var session int32 // what the protocol says it is may be a pooler's
	var server time.Time
	var same, whole bool
	switch err := conn.QueryRow(ctx, sessionOfSQL, l.meta.Partitions, l.meta.MACKey).Scan(&session, &server,
		&same, &whole); {
	case err != nil:
		return nil, err
	case !same:
		return nil, ErrReplaced
	case !whole:
		return nil, errSession
	}
	l.health.Same()
	(*Store)(l).isAt(server)
	var wg sync.WaitGroup
	defer wg.Wait()
	waiting, done := context.WithCancel(ctx)
	defer done()
	wg.Go(func() { l.endBlockers(waiting, session) })
	rows, _ := conn.Query(ctx, claimSQL, args...) // its error is that of the rows
	return pgx.CollectRows(rows, scanHolding)
}

// endBlockers ends, again and again until ctx ends, the sessions that block another one and wait for their
// clients. Its own errors are nobody's: a claim that goes on being blocked fails by itself.
func (l *leaser) endBlockers(ctx context.Context, blocked int32) {
	again := time.NewTicker(patience)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			_, _ = l.leases.Exec(ctx, endBlockersSQL, blocked, interval(patience))
		case <-ctx.Done():
			return
		}
	}
}
