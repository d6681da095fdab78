package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/outbox"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

func exec(t testing.TB, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// whatMayPassIsTriedAgain: a job that names a calendar waits, with the reason, and what follows it with it, until
// the calendar is there.
func whatMayPassIsTriedAgain(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	n, c := node(t, "memory:", url), session(t, url)
	exec(t, c, "SELECT carillon.put_job($1)", `{"name": "a", "schedule": "@daily", "except": ["holidays"],
		"target": {"worker": {"queue": "q"}}}`)
	exec(t, c, "SELECT carillon.put_job($1)", `{"name": "a", "schedule": "@daily", "note": "second",
		"target": {"worker": {"queue": "q"}}}`)
	var waiting []outbox.Waiting
	realserver.Eventually(t, func() (err error) {
		if waiting, err = outbox.WaitingOf(t.Context(), url, 10); err == nil && len(waiting) == 0 {
			err = errors.New("nothing waits")
		}
		return err
	})
	const says = `failed_precondition: except[0]: there is no calendar "holidays" in the namespace; put it first`
	if w := waiting[0]; len(waiting) != 1 || w.Name != "a" || w.Tries < 1 || w.Problem != says || w.RetryAt.IsZero() {
		t.Errorf("%+v", waiting)
	}
	if job(t, n, "a") != nil {
		t.Error("the second put went before the first one")
	}
	if _, err := n.Scheduler().PutCalendar(t.Context(), carillon.Calendar{Name: "holidays",
		Dates: []string{"2030-12-24"}}); err != nil {
		t.Fatal(err)
	}
	emptied(t, c)
	if j := job(t, n, "a"); j == nil || j.Note != "second" || j.Status.Generation != 2 {
		t.Errorf("the job is %+v", j)
	}
}

// patienceEnds: what may pass is refused for good in the end. Then it can be tried again, by its id, by the reason
// or with all, and has its id still.
func patienceEnds(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	c := session(t, url)
	exec(t, c, "UPDATE carillon.outbox_settings SET patience = '0'")
	n := node(t, "memory:", url)
	var ids []string
	for i := range 4 {
		ids = append(ids, value[string](t, c, "SELECT carillon.put_job($1)::text", fmt.Sprintf(`{"name": "job/%d",
			"schedule": "@daily", "except": ["c%d"], "note": "%[1]d", "target": {"worker": {"queue": "q"}}}`, i, i%2)))
	}
	emptied(t, c)
	if _, err := outbox.Retry(t.Context(), url, outbox.Choice{IDs: []string{ids[0], "00000000-0000-4000-8000-000000000000"}}); err == nil {
		t.Error("an id that is none is taken")
	}
	for i := range 2 {
		if _, err := n.Scheduler().PutCalendar(t.Context(), carillon.Calendar{Name: fmt.Sprint("c", i),
			Dates: []string{"2030-12-24"}}); err != nil {
			t.Fatal(err)
		}
	}
	retry := func(want int, of outbox.Choice, left ...string) {
		t.Helper()
		if n, err := outbox.Retry(t.Context(), url, of); n != want || err != nil {
			t.Errorf("%+v: %d, %v; want %d", of, n, err, want)
		}
		emptied(t, c)
		rejects, err := outbox.Rejects(t.Context(), url, 10)
		var got []string
		for _, r := range rejects {
			got = append(got, r.ID)
		}
		if slices.Sort(got); err != nil || !slices.Equal(got, slices.Sorted(slices.Values(left))) {
			t.Errorf("rejects %q, %v; want %q", got, err, left)
		}
	}
	retry(0, outbox.Choice{Reason: "none of these"}, ids...)
	retry(1, outbox.Choice{IDs: ids[:1]}, ids[1:]...)
	retry(1, outbox.Choice{Reason: `no calendar "c0"`}, ids[1], ids[3])
	exec(t, c, "SELECT carillon.put_job($1)", `{"name": "bad", "due_time": "soon", "target": {"worker": {"queue": "q"}}}`)
	emptied(t, c)
	bad := value[string](t, c, "SELECT id::text FROM carillon.outbox_rejects WHERE name = 'bad'")
	retry(3, outbox.Choice{}, bad) // it is refused again
	for i := range 4 {
		if j := job(t, n, fmt.Sprint("job/", i)); j == nil || j.Note != fmt.Sprint(i) {
			t.Errorf("job/%d is %+v", i, j)
		}
	}
}

// decisions is what partitions remember of commands.
type decisions struct {
	mu      sync.Mutex
	done    map[string]bool
	refused map[string]error
	order   []string // done, by the notes of the jobs
}

func (d *decisions) decide(c message.Command, ask func() error) (bool, error) {
	d.mu.Lock()
	before, refused := d.done[c.Request], d.refused[c.Request]
	d.mu.Unlock()
	if before || refused != nil {
		return before, refused
	}
	if c.Refusal == nil {
		if err := ask(); err != nil {
			return false, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch before, refused := d.done[c.Request], d.refused[c.Request]; {
	case before || refused != nil:
		return before, refused
	case c.Refusal != nil:
		d.refused[c.Request] = c.Refusal
	default:
		d.done[c.Request] = true
		d.order = append(d.order, c.Job.Note)
	}
	return false, nil
}

// twoReadersAgreeOnRefusals: of each command two readers that read at once write one reject or do it, also if one
// finds it wrong and the other one does not, and what is refused by one is not done by the other after the next
// one of its name.
func twoReadersAgreeOnRefusals(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	c := session(t, url)
	exec(t, c, `CREATE FUNCTION public.pg_try_advisory_lock(bigint) RETURNS bool LANGUAGE sql AS 'SELECT true'`)
	const names, each = 20, 10
	for i := range each {
		for k := range names {
			exec(t, c, `SELECT carillon.put_job(jsonb_build_object('name', 'job/' || $1::int, 'due_time', '1h',
				'note', $1::int || '/' || $2::int, 'target', '{"worker": {"queue": "q"}}'::jsonb))`, k, i)
		}
	}
	d := decisions{done: map[string]bool{}, refused: map[string]error{}}
	both := url + "&options=-csearch_path%3Dpublic,pg_catalog" // nobody holds the turn
	var started sync.WaitGroup
	started.Add(2)
	for reader := range 2 {
		var once sync.Once
		deciding(t, both, func(c message.Command) (bool, error) {
			once.Do(started.Done)
			started.Wait() // both have read
			return d.decide(c, func() error {
				var k, i int
				if _, err := fmt.Sscanf(c.Job.Note, "%d/%d", &k, &i); err != nil {
					return err
				}
				if i%3 == 0 || i%3 == 1 && reader == k%2 {
					return carillon.Errorf(carillon.InvalidArgument, "schedule", "refused")
				}
				return nil
			})
		})
	}
	emptied(t, c)
	d.mu.Lock()
	defer d.mu.Unlock()
	rejects := value[int](t, c, "SELECT count(*) FROM carillon.outbox_rejects WHERE reason = 'refused'")
	if rejects != len(d.refused) || rejects+len(d.done) != names*each || rejects < 4*names {
		t.Errorf("%d rejects, %d refused, %d done of %d", rejects, len(d.refused), len(d.done), names*each)
	}
	last := map[int]int{}
	for _, note := range d.order {
		var k, i int
		if _, err := fmt.Sscanf(note, "%d/%d", &k, &i); err != nil {
			t.Fatal(err)
		}
		if i < last[k] {
			t.Errorf("of job/%d number %d was done after %d", k, i, last[k])
		}
		last[k] = i
	}
}

// rowsBehindABlockedNameAreNotRead: again and again. They are done in order when the first one is done, and
// also if somebody deletes that.
func rowsBehindABlockedNameAreNotRead(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	c := session(t, url)
	const rows = 300
	exec(t, c, `SELECT carillon.put_job(jsonb_build_object('name', n, 'due_time', '1h', 'note', i::text,
		'target', '{"worker": {"queue": "q"}}'::jsonb)) FROM generate_series(1, $1) AS i, (VALUES ('stuck'), ('gone')) AS v (n)`, rows)
	var mu sync.Mutex
	open := false
	var order []string
	reading(t, url, func(m message.Command) error {
		mu.Lock()
		defer mu.Unlock()
		if !open && m.Key.Name != "other" {
			return errors.New("away")
		}
		order = append(order, m.Key.Name+" "+m.Job.Note)
		return nil
	})
	realserver.Eventually(t, func() error {
		if n := value[int](t, c, "SELECT count(*) FROM carillon.outbox WHERE parked"); n != 2*rows {
			return fmt.Errorf("%d rows are parked", n)
		}
		return nil
	})
	exec(t, c, putOfName, "other")
	realserver.Eventually(t, func() error {
		if n := value[int](t, c, "SELECT count(*) FROM carillon.outbox WHERE name = 'other'"); n > 0 {
			return errors.New("another name waits")
		}
		return nil
	})
	exec(t, c, "DELETE FROM carillon.outbox WHERE name = 'gone' AND job ->> 'note' = '1'")
	mu.Lock()
	open = true
	mu.Unlock()
	exec(t, c, "UPDATE carillon.outbox SET retry_at = clock_timestamp() WHERE name = 'stuck' AND retry_at IS NOT NULL")
	realserver.Eventually(t, func() error {
		if n := value[int](t, c, "SELECT count(*) FROM carillon.outbox WHERE name = 'stuck'"); n > 0 {
			return fmt.Errorf("%d rows of the name are left", n)
		}
		return nil
	})
	outbox.Promote(t, url)
	emptied(t, c)
	mu.Lock()
	defer mu.Unlock()
	if len(order) != 2*rows {
		t.Fatalf("%d commands are done", len(order))
	}
	last := map[string]int{"gone": 1} // the first one was deleted
	for _, done := range order {
		var name string
		var i int
		if _, err := fmt.Sscan(done, &name, &i); err != nil && name != "other" {
			t.Fatal(err)
		}
		if name != "other" && i != last[name]+1 {
			t.Fatalf("done in the order %q", order)
		}
		last[name] = i
	}
}

// blockedNamesLeaveRoomForOthers: while more commands hang, again and again, than are under way at a time, what was
// not tried yet is done. Those are left with less time than at first.
func blockedNamesLeaveRoomForOthers(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	c := session(t, url)
	const blocked, others = 700, 500
	exec(t, c, `SELECT carillon.put_job(jsonb_build_object('name', 'blocked/' || i, 'due_time', '1h',
		'target', '{"worker": {"queue": "q"}}'::jsonb)) FROM generate_series(1, $1) AS i, generate_series(1, 3)`, blocked)
	exec(t, c, `UPDATE carillon.outbox AS o SET parked = true, tries = 1, retry_at = CASE WHEN NOT EXISTS (
		SELECT FROM carillon.outbox AS b WHERE b.name = o.name AND b.seq < o.seq) THEN clock_timestamp() END`)
	release := make(chan struct{})
	var mu sync.Mutex
	hang, most := 0, 0
	ctx, cancel := context.WithCancel(t.Context())
	r := outbox.New(outbox.Options{Name: "test", URL: url, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Do: func(ctx context.Context, m message.Command) (bool, error) {
			if m.Key.Name == "other" {
				return false, nil
			}
			mu.Lock()
			hang++
			most = max(most, hang)
			mu.Unlock()
			defer func() { mu.Lock(); hang--; mu.Unlock() }()
			select {
			case <-release:
				return false, nil
			case <-ctx.Done():
				return false, ctx.Err()
			}
		},
		Forget: func(context.Context, []message.CommandID) error { return nil },
		Done:   func(int) {}, Rejected: func(int) {}})
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, ctx) })
	defer running.Wait()
	defer cancel()
	realserver.Eventually(t, func() error { // there is no room for more
		mu.Lock()
		defer mu.Unlock()
		if hang < 128 {
			return fmt.Errorf("%d commands hang", hang)
		}
		return nil
	})
	exec(t, c, putOfName+" FROM generate_series(1, $2::int)", "other", others)
	realserver.Eventually(t, func() error {
		if n := value[int](t, c, "SELECT count(*) FROM carillon.outbox WHERE name = 'other'"); n > 0 {
			return fmt.Errorf("%d of other names are left", n)
		}
		return nil
	})
	realserver.Eventually(t, func() error { // all have their turn, though each hangs
		if n := value[int](t, c, "SELECT count(*) FROM carillon.outbox WHERE retry_at IS NOT NULL AND tries = 1"); n > 0 {
			return fmt.Errorf("%d were not tried again", n)
		}
		return nil
	})
	close(release)
	emptied(t, c)
	mu.Lock()
	defer mu.Unlock()
	if most > 128 {
		t.Errorf("%d commands that were tried before were under way at a time", most)
	}
}

// aReaderEndsWithWhatIsUnderWay: it waits for that, and no longer for what hangs. What is being recorded when it is
// to end is recorded.
func aReaderEndsWithWhatIsUnderWay(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	c, blocker := session(t, url), session(t, url)
	for _, name := range []string{"recorded", "ends", "hangs"} {
		exec(t, c, putOfName, name)
	}
	tx, err := blocker.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK carillon.outbox_done IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun, end := make(chan struct{}, 3), make(chan struct{})
	r := outbox.New(outbox.Options{Name: "test", URL: url, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Do: func(ctx context.Context, c message.Command) (bool, error) {
			begun <- struct{}{}
			switch c.Key.Name {
			case "hangs":
				<-ctx.Done()
			case "ends":
				select {
				case <-end:
				case <-ctx.Done():
				}
			}
			return false, ctx.Err()
		},
		Forget: func(context.Context, []message.CommandID) error { return nil },
		Done:   func(int) {}, Rejected: func(int) {}})
	ended := make(chan struct{})
	go func() { r.Run(ctx, t.Context()); close(ended) }()
	for range 3 {
		<-begun
	}
	realserver.Eventually(t, func() error {
		if value[int](t, c, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock' AND query LIKE '%outbox_done%'`) == 0 {
			return errors.New("nothing is being recorded")
		}
		return nil
	})
	cancel()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(end)
	realserver.Eventually(t, func() error {
		select {
		case <-ended: // and not when the call must be over
			return nil
		default:
			return errors.New("the reader does not end")
		}
	})
	left := value[[]string](t, c, "SELECT array_agg(name || ' ' || tries ORDER BY seq) FROM carillon.outbox")
	if !slices.Equal(left, []string{"hangs 0"}) {
		t.Errorf("left are %q", left)
	}
}
