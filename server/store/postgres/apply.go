package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillonhq/carillon/server/store"
)

var _ store.Grouper = (*Store)(nil)

// ApplyGroup makes all batches durable in one transaction, or none.
func (s *Store) ApplyGroup(ctx context.Context, writes []store.Write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var c changes
	for _, w := range writes {
		sh, ok := w.Shard.(*shard)
		switch {
		case !ok || sh.s != s:
			return store.ErrOtherStore
		case sh.term.IsZero():
			return store.ErrFenced
		}
		if err := c.add(sh, w.Batch); err != nil {
			return err
		}
	}
	if len(writes) == 0 {
		return nil
	}
	end, err := s.begin()
	if err != nil {
		return err
	}
	defer end()
	err = s.send(ctx, c.statements())
	s.heed(err)
	return err
}

// send does the statements in one round trip and one transaction. Once they are on their way it is not
// cancelled by ctx, but it does not wait for ever.
func (s *Store) send(ctx context.Context, b *pgx.Batch) error {
	waiting, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	conn, err := s.pool.Acquire(waiting)
	if err != nil {
		return failed("connect to PostgreSQL", err)
	}
	defer conn.Release()
	sending, cancelSending := context.WithTimeout(context.WithoutCancel(ctx), s.commitTimeout)
	defer cancelSending()
	return outcome(roundTrip(sending, conn.Conn(), b))
}

// roundTrip sends the statements without BEGIN and COMMIT: what stands between two Syncs of the protocol is
// one transaction, and it is committed when the last statement has succeeded. Its end is what Close waits
// for.
func roundTrip(ctx context.Context, conn *pgx.Conn, b *pgx.Batch) error {
	results := conn.SendBatch(ctx, b)
	for range b.Len() {
		if _, err := results.Exec(); err != nil {
			return errors.Join(err, results.Close())
		}
	}
	if err := results.Close(); err != nil {
		return err
	}
	return replicated(conn.PgConn())
}

// replicated reports whether the commit that was just told as done was warned of.
func replicated(c *pgconn.PgConn) error {
	if _, warned := c.CustomData()[unreplicated]; warned {
		delete(c.CustomData(), unreplicated)
		return errUnreplicated
	}
	return nil
}

// errUnreplicated says that a write is on one server only, where there should be more.
var errUnreplicated = errors.New("the wait for a synchronous standby was cancelled")

// interval is a duration as PostgreSQL takes it: in microseconds.
func interval(d time.Duration) int64 { return d.Microseconds() }
