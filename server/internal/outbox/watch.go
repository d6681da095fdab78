package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A watch decides how a reader learns of commits. Usually they notify it, and it looks now and then besides.
// With many commits a second it looks all the time, and says so by a lock: notifications have a database's
// commits wait for each other (carillon.outbox_wake).
//
//	notified ──many commits──→ looks ──few──→ lingers ──nobody is left that has not notified──→ notified
//
// It begins with lingers: before it read nobody notified. With many commits it looks again from there.
type watch struct {
	reader *Reader
	conn   *pgxpool.Conn // its session holds the lock
	state  watchState
	rows   int       // found since
	since  time.Time // the rate was looked at
	used   time.Time // the session: the server ends it if it is idle for long
	left   time.Time // since when it lingers
}

type watchState uint8

const (
	notified watchState = iota
	looks
	lingers // it looks still, and does not say so any more
)

const (
	manyRows  = 100 // a second: from then on it looks
	fewRows   = 25  // a second: then no longer
	rateOver  = time.Second
	lookEvery = 10 * time.Millisecond
)

// Locks of the application's database, as of schema.sql.
const (
	lockOfLeaving = 7161130512103026555
	lockOfLooking = 7161130512103026556
)

func (r *Reader) newWatch(ctx context.Context, pool *pgxpool.Pool) (*watch, error) {
	c, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &watch{reader: r, conn: c, state: lingers, since: now, used: now, left: now}, nil
}

// errIdle is why a reader must connect again.
var errIdle = errors.New("the session that was idle has ended")

// every is how often it looks although it was not notified.
func (w *watch) every() time.Duration {
	switch {
	case w.state == lingers && time.Since(w.left) > rateOver: // a long transaction may hold it up
		return pollAlone
	case w.state != notified:
		return lookEvery
	case w.reader.notify.Load():
		return pollEvery
	}
	return pollAlone
}

// step goes on to the next state, if it is time to. It is called every now and then.
func (w *watch) step(ctx context.Context) error {
	if time.Since(w.used) >= listenPing {
		if w.used = time.Now(); w.conn.Ping(ctx) != nil {
			return errIdle
		}
	}
	took := time.Since(w.since)
	if w.state == lingers {
		// First whether another reader says that it looks, for then nobody notifies; shared, so that nobody
		// takes this for that.
		var alone bool
		err := w.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock_shared($1) AND pg_advisory_unlock_shared($1)
			AND pg_try_advisory_lock($2) AND pg_advisory_unlock($2)`, int64(lockOfLooking), int64(lockOfLeaving)).Scan(&alone)
		if err == nil && alone {
			w.state = notified
		}
		if err != nil || alone {
			return err
		}
	}
	if took < rateOver && (w.state == looks || took < pollEvery) {
		return nil
	}
	rate := float64(w.rows) / took.Seconds()
	w.rows, w.since = 0, time.Now()
	switch {
	case w.state != looks && rate >= manyRows && w.reader.notify.Load():
		var mine bool
		err := w.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(lockOfLooking)).Scan(&mine)
		if mine { // otherwise somebody has just looked whether it is held
			w.state = looks
		}
		return err
	case w.state == looks && rate < fewRows:
		w.state, w.left = lingers, time.Now()
		_, err := w.conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", int64(lockOfLooking))
		return err
	}
	return nil
}

// end gives the session back without its locks. After a failure they end with the session.
func (w *watch) end(until context.Context) {
	if w.state == looks {
		ctx, cancel := context.WithTimeout(until, pingWithin)
		defer cancel()
		if _, err := w.conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", int64(lockOfLooking)); err != nil {
			w.reader.o.Log.Debug("a lock ends with its session", "outbox", w.reader.o.Name, "error", err)
		}
	}
	w.conn.Release()
}
