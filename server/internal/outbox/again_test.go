package outbox_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/outbox"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// rejectsAreRetriedOnceAndInOrder: also if they are refused again meanwhile, with as many ids as may be given, and
// in the order in which they were given after some were retried before.
func rejectsAreRetriedOnceAndInOrder(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	c := session(t, url)
	const rejects = outbox.RetriedAtOnce + 200
	// The same names are in both transactions.
	exec(t, c, `SELECT carillon.put_jobs((SELECT jsonb_agg(jsonb_build_object('name', 'job/' || i % 100, 'due_time', '1h',
		'note', i::text, 'target', '{"worker": {"queue": "q"}}'::jsonb)) FROM generate_series(1, $1) AS i))`, rejects)
	var mu sync.Mutex
	refuses := true
	order := map[string][]int{}
	reading(t, url, func(m message.Command) error {
		mu.Lock()
		defer mu.Unlock()
		if refuses {
			return carillon.Errorf(carillon.InvalidArgument, "note", "refused")
		}
		var i int
		if _, err := fmt.Sscan(m.Job.Note, &i); err != nil {
			return err
		}
		order[m.Key.Name] = append(order[m.Key.Name], i)
		return nil
	})
	emptied(t, c)
	retry := func(want int, of outbox.Choice) {
		t.Helper()
		n, err := outbox.Retry(t.Context(), url, of)
		if n != want || err != nil {
			t.Errorf("%d rejects are retried, %v; want %d", n, err, want)
		}
		emptied(t, c)
	}
	retry(rejects, outbox.Choice{})
	if n := value[int](t, c, "SELECT count(*) FROM carillon.outbox_rejects WHERE retried = 1"); n != rejects {
		t.Errorf("%d of %d rejects were retried once", n, rejects)
	}
	for again, n := range []int{outbox.RetriedAtOnce, 100} { // 100: the first one of each name
		retry(n, outbox.Choice{IDs: value[[]string](t, c, `SELECT array_agg(id::text)
			FROM (SELECT id FROM carillon.outbox_rejects ORDER BY given_at, seq LIMIT $1) AS r`, n)})
		if got := value[int](t, c, "SELECT count(*) FROM carillon.outbox_rejects WHERE retried = $1",
			again+2); got != n {
			t.Errorf("%d of %d rejects were retried again", got, n)
		}
	}
	mu.Lock()
	refuses = false
	mu.Unlock()
	retry(rejects, outbox.Choice{})
	mu.Lock()
	defer mu.Unlock()
	n := 0
	for name, done := range order {
		if n += len(done); !slices.IsSorted(done) {
			t.Errorf("%s: done in the order %v", name, done)
		}
	}
	if n != rejects {
		t.Errorf("%d of %d are done", n, rejects)
	}
}

// everyNameIsPromoted: page by page, each by its first row, and none that has a time.
func everyNameIsPromoted(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	c := session(t, url)
	exec(t, c, `SELECT carillon.put_job(jsonb_build_object('name', 'job/' || i, 'namespace', 'n' || i % 3,
		'due_time', '1h', 'target', '{"worker": {"queue": "q"}}'::jsonb)) FROM generate_series(1, 20) AS i, generate_series(1, 2)`)
	exec(t, c, `UPDATE carillon.outbox SET parked = true, retry_at = CASE WHEN name = 'job/7' THEN '2100-01-01'::timestamptz END`)
	outbox.Promote(t, url)
	const firsts = `SELECT count(*) FROM carillon.outbox AS o WHERE (retry_at < clock_timestamp()) IS DISTINCT FROM
		CASE WHEN name = 'job/7' THEN false WHEN EXISTS (SELECT FROM carillon.outbox AS b WHERE b.namespace = o.namespace
			AND b.name = o.name AND b.seq < o.seq) THEN NULL ELSE true END`
	if n := value[int](t, c, firsts); n != 0 {
		t.Errorf("%d rows of 40 are due and should not be, or the other way round", n)
	}
}

// whatIsParkedTooLateIsDue: rows that wait for one that another reader has dealt with since are tried, in order. What
// does wait is not due.
func whatIsParkedTooLateIsDue(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	c := session(t, url)
	for _, name := range []string{"gone", "stuck", "gone", "stuck", "gone"} {
		exec(t, c, putOfName, name)
	}
	exec(t, c, `UPDATE carillon.outbox SET parked = true, retry_at = '2100-01-01' WHERE seq = 2`)
	exec(t, c, `DELETE FROM carillon.outbox WHERE seq = 1`)
	outbox.Park(t, url, []int64{3, 4, 5}, []string{"default", "default", "default"}, []string{"gone", "stuck", "gone"})
	got := value[[]string](t, c, `SELECT array_agg(format('%s %s %s', seq, parked, coalesce(retry_at < clock_timestamp(), false))
		ORDER BY seq) FROM carillon.outbox`)
	if want := []string{"2 t f", "3 t t", "4 t f", "5 t f"}; !slices.Equal(got, want) {
		t.Errorf("number, parked, due: %q; want %q", got, want)
	}
}
