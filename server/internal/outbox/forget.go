package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
)

const (
	// doneKept is how long after it was seen that a row is deleted Carillon remembers that it has done it. A
	// node that read the row before may ask for it until callWithin after it was read.
	doneKept      = 30 * time.Second
	forgetEvery   = 5 * time.Second
	rowsAtATime   = 50     // rows of outbox_done that are read at a time
	seenRows      = 20_000 // that are kept in mind
	pruneRounds   = 720    // between removals of old rejects: an hour
	namesAtATime  = 10_000 // of which it is looked whether something is tried
	promoteRounds = 12     // between looks for names of which nothing is tried: a minute
)

// ripe returns rows of outbox_done that were seen first some time ago. Since then nobody can read what they
// are about. When the database says that it was done may be long before that was committed.
func (r *Reader) ripe(ctx context.Context, pool *pgxpool.Pool) (seqs []int64, err error) {
	rows, err := pool.Query(ctx, "SELECT seq FROM carillon.outbox_done ORDER BY seq LIMIT $1", seenRows)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, err
	}
	now, seen := time.Now(), make(map[int64]time.Time, len(all))
	for _, seq := range all {
		first, ok := r.seen[seq]
		if !ok {
			first = now
		}
		seen[seq] = first
		if now.Sub(first) >= r.o.Kept {
			seqs = append(seqs, seq)
		}
	}
	r.seen = seen
	return seqs, nil
}

// forget has Carillon forget what was done some time ago, and then the outbox.
func (r *Reader) forget(ctx context.Context, pool *pgxpool.Pool) error {
	ripe, err := r.ripe(ctx, pool)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(ripe, rowsAtATime) {
		if err := r.forgetRows(ctx, pool, some); err != nil {
			return err
		}
	}
	return nil
}

// forgetRows is forget for some rows of outbox_done.
func (r *Reader) forgetRows(ctx context.Context, pool *pgxpool.Pool, of []int64) error {
	rows, err := pool.Query(ctx, "SELECT seq, commands::text FROM carillon.outbox_done WHERE seq = ANY ($1)", of)
	if err != nil {
		return err
	}
	var seqs []int64
	var ids []message.CommandID
	var seq int64
	var text string
	if _, err := pgx.ForEachRow(rows, []any{&seq, &text}, func() error {
		var commands [][3]string
		if err := json.Unmarshal([]byte(text), &commands); err != nil {
			return fmt.Errorf("row %d of carillon.outbox_done: %w", seq, err)
		}
		for _, c := range commands {
			ids = append(ids, message.CommandID{Key: carillon.Key{Namespace: c[0], Name: c[1]}, Request: c[2]})
		}
		seqs = append(seqs, seq)
		return nil
	}); err != nil || len(seqs) == 0 {
		return err
	}
	if err := r.o.Forget(ctx, ids); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "DELETE FROM carillon.outbox_done WHERE seq = ANY ($1)", seqs)
	return err
}

// tidy forgets, counts what waits, removes old rejects and finds what nobody would look at, until ctx ends.
func (r *Reader) tidy(ctx context.Context, pool *pgxpool.Pool) error {
	tick := time.NewTicker(min(forgetEvery, r.o.Kept))
	defer tick.Stop()
	for round := 0; ; round++ {
		if err := r.readSettings(ctx, pool); err != nil {
			return err
		}
		s, err := count(ctx, pool)
		if err != nil {
			return err
		}
		r.stands.Store(&s)
		if round%pruneRounds == 0 {
			if err := pruneRejects(ctx, pool); err != nil {
				return err
			}
		}
		if err := r.forget(ctx, pool); err != nil {
			if _, ours := errors.AsType[*carillon.Error](err); !ours {
				return err // of the database
			}
			r.o.Log.Debug("what an outbox has done is not forgotten yet", "outbox", r.o.Name, "error", err)
		}
		if round%promoteRounds == 0 {
			if err := promoteAll(ctx, pool, namesAtATime); isTimeout(err) { // it begins again in a minute
				r.o.Log.Warn("an outbox is slow: names of which nothing is tried were not looked for to the end", "outbox",
					r.o.Name, "error", err)
			} else if err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
