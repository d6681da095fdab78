package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// Options say what a reader works with.
type Options struct {
	Name string // of the outbox, for logs and metrics
	URL  string // of the application's database
	// Do has a command done, or refused for good. It returns once that is durable, and whether it was done
	// before.
	Do func(ctx context.Context, c message.Command) (before bool, err error)
	// Forget has commands forgotten.
	Forget func(ctx context.Context, ids []message.CommandID) error
	Log    *slog.Logger
	// Done and Rejected count commands.
	Done, Rejected func(n int)
	// Kept is how long after it was seen that its row is deleted a command is remembered. Default 30 s: more
	// than callWithin.
	Kept time.Duration
}

// Reader does the commands of one outbox. Any number of readers, of one cluster, may have the same outbox:
// one of them reads it, the others stand by. That is for speed only: what two of them do at the same time is
// done once, in order.
type Reader struct {
	o      Options
	state  atomic.Int32
	stands atomic.Pointer[standing]
	notify atomic.Bool // commits are told
	// patience is how long a command is tried again that is refused for a reason that may pass, in ns.
	patience atomic.Int64

	seen map[int64]time.Time // rows of outbox_done, since when; of the goroutine that tidies
}

// States of a reader.
const (
	away     int32 = iota // it has no connection
	standsBy              // another one reads
	inCharge              // it reads
)

// New returns a reader.
func New(o Options) *Reader {
	o.Kept = cmp.Or(o.Kept, doneKept)
	return &Reader{o: o}
}

// Stats is how a reader and its outbox stand.
type Stats struct {
	Name      string
	Connected bool
	Reading   bool          // and the following are known
	Waiting   int           // commands, up to 100,000
	Oldest    time.Duration // how long the first of them has waited
}

// Stats returns how the outbox stands.
func (r *Reader) Stats() Stats {
	s := Stats{Name: r.o.Name, Connected: r.state.Load() != away, Reading: r.state.Load() == inCharge}
	if stands := r.stands.Load(); s.Reading && stands != nil {
		s.Waiting, s.Oldest = stands.waiting, stands.oldest
	}
	return s
}

// Times of a reader.
const (
	againFirst  = 250 * time.Millisecond // before it connects again
	againLast   = 5 * time.Second        // the same, if that fails again and again
	standEvery  = 500 * time.Millisecond // whether nobody else reads any more
	standLong   = time.Minute            // then it looks who holds the lock
	listenPing  = 10 * time.Second       // less than idle_session_timeout
	pollEvery   = 500 * time.Millisecond // in case that a notification is missing, and for what is tried again
	pollAlone   = 50 * time.Millisecond  // if commits are not told, and if it lingers for long
	lockOfTurn  = 7161130512103026554    // advisory lock of who reads
	channelName = "carillon_outbox"
)

// Run reads until ctx ends. What is under way then may end first, for a second, and until the other context
// is done. What does not is done again by who reads next.
func (r *Reader) Run(ctx, until context.Context) {
	for pause := againFirst; ctx.Err() == nil; pause = min(2*pause, againLast) {
		began := time.Now()
		err := r.connect(ctx, until)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > againLast {
			pause = againFirst
		}
		level := slog.LevelWarn
		if pause > 4*againFirst && pause < againLast {
			level = slog.LevelDebug // it was said
		}
		r.o.Log.Log(ctx, level, "an outbox is not read at present: this is tried again", "outbox", r.o.Name,
			"database", store.RedactURL(r.o.URL, false), "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// connect reads until ctx ends or the connection fails.
func (r *Reader) connect(ctx, until context.Context) error {
	config, err := poolConfig(r.o.URL)
	if err != nil {
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	within, cancel := context.WithTimeout(ctx, connectWithin)
	held, err := pool.Acquire(within)
	cancel()
	if err != nil {
		return err
	}
	listener := held.Hijack() // its session holds the lock
	defer func() {
		ctx, cancel := context.WithTimeout(until, pingWithin)
		defer cancel()
		if err := listener.Close(ctx); err != nil {
			r.o.Log.Debug("the connection of an outbox was not closed", "outbox", r.o.Name, "error", err)
		}
	}()
	if err := checkVersion(ctx, listener); err != nil {
		return err
	}
	defer r.state.Store(away)
	if err := r.awaitTurn(ctx, listener); err != nil {
		return err
	}
	return r.read(ctx, until, pool, listener)
}

// awaitTurn waits until no other node reads the outbox.
func (r *Reader) awaitTurn(ctx context.Context, c *pgx.Conn) error {
	r.state.Store(standsBy)
	looked := time.Now()
	for {
		var mine bool
		err := c.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(lockOfTurn)).Scan(&mine)
		if err != nil || mine {
			return err
		}
		if time.Since(looked) >= standLong {
			looked = time.Now()
			who, err := intruders(ctx, c)
			if err != nil {
				return err
			}
			if len(who) > 0 {
				r.o.Log.Warn("an outbox is not read: a session that is no node's holds the lock of who reads",
					"outbox", r.o.Name, "sessions", who)
			}
		}
		select {
		case <-time.After(standEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// intruders returns the sessions that hold the lock of who reads shared, as no node does. A program has it so
// within put_job only.
func intruders(ctx context.Context, c *pgx.Conn) ([]string, error) {
	rows, err := c.Query(ctx, `SELECT format('pid %s of %s, application %s', l.pid, a.usename, a.application_name)
		FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a USING (pid)
		WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ShareLock' AND l.objsubid = 1
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND (l.classid::bigint << 32 | l.objid::bigint) = $1`, int64(lockOfTurn))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// read does commands until ctx ends or the database fails.
func (r *Reader) read(ctx, until context.Context, pool *pgxpool.Pool, listener *pgx.Conn) error {
	if _, err := listener.Exec(ctx, "LISTEN "+channelName); err != nil {
		return err
	}
	if err := r.readSettings(ctx, pool); err != nil {
		return err
	}
	r.state.Store(inCharge)
	r.o.Log.Info("this node reads an outbox", "outbox", r.o.Name, "database", store.RedactURL(r.o.URL, false))
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	bell := make(chan struct{}, 1)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer fail(nil) // before the wait
	beside.Go(func() {
		if err := listen(ctx, listener, bell); err != nil {
			fail(fmt.Errorf("%w: %w", errDatabase, err))
		}
	})
	beside.Go(func() {
		if err := r.tidy(ctx, pool); err != nil {
			fail(fmt.Errorf("%w: %w", errDatabase, err))
		}
	})
	w, err := r.newWatch(ctx, pool)
	if err != nil {
		return err
	}
	defer w.end(until)
	err = newPass(r, pool, w).run(ctx, until, bell)
	if cause := context.Cause(ctx); errors.Is(cause, errDatabase) {
		return cause
	}
	return err
}

// errDatabase is why a reader must connect again.
var errDatabase = errors.New("the application's database")

// listen rings the bell at each notification, until ctx ends.
func listen(ctx context.Context, c *pgx.Conn, bell chan<- struct{}) error {
	for {
		within, cancel := context.WithTimeout(ctx, listenPing)
		_, err := c.WaitForNotification(within)
		cancel()
		if ctx.Err() == nil && err != nil && errors.Is(err, context.DeadlineExceeded) && !c.IsClosed() {
			if err = c.Ping(ctx); err == nil {
				continue
			}
		}
		if ctx.Err() != nil || err != nil {
			return err
		}
		select {
		case bell <- struct{}{}:
		default: // it rings
		}
	}
}

// readSettings reads what an operator may change.
func (r *Reader) readSettings(ctx context.Context, pool *pgxpool.Pool) error {
	var notify bool
	var patience float64
	err := pool.QueryRow(ctx, "SELECT notify, extract(epoch FROM patience)::float8 FROM carillon.outbox_settings").
		Scan(&notify, &patience)
	if err != nil {
		return err
	}
	r.notify.Store(notify)
	r.patience.Store(int64(patience * float64(time.Second)))
	return nil
}

// carillonError returns the error as one of Carillon's; of another the kind is Internal.
func carillonError(err error) *carillon.Error {
	if e, ok := errors.AsType[*carillon.Error](err); ok {
		return e
	}
	return &carillon.Error{}
}

// verdict is what an error says about a command.
type verdict uint8

const (
	unknown verdict = iota // nothing: it is tried again, for as long as it takes
	mayPass                // it is refused for the state of something else: no such calendar, a limit
	forGood                // it is wrong in itself
)

// refusal returns what an error says about a command.
func refusal(err error) verdict {
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok || e.Unknown || errors.Is(err, message.ErrNotOwner) || errors.Is(err, message.ErrNotTaken) {
		return unknown
	}
	switch e.Kind {
	case carillon.ResourceExhausted:
		if message.OverQuota(e) {
			return unknown // there is room again sooner or later
		}
		return mayPass
	case carillon.InvalidArgument, carillon.AlreadyExists:
		return forGood
	case carillon.FailedPrecondition, carillon.NotFound, carillon.PermissionDenied:
		return mayPass
	}
	return unknown
}
