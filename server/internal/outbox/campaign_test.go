package outbox_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/link"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	_ "github.com/carillonhq/carillon/server/store/pebble"
	"github.com/carillonhq/carillon/worker"
)

var transactions = flag.Int("outbox-transactions", 600, "transactions of the campaign; 10000 is the long form")

// childVariable makes the test a node, until it is killed: its name, the store's URL, the address of gRPC, the URL
// of the database.
const childVariable = "CARILLON_TEST_OUTBOX_NODE"

// child is a node.
func child(t *testing.T, args []string) {
	s, err := server.New(server.Config{Name: args[0], Store: args[1], Partitions: 8, GRPC: args[2], HTTP: server.None,
		Extensions: server.Extensions{Feeds: []server.Feed{feed(args[3])}}})
	if err == nil {
		err = s.Run(context.Background())
	}
	t.Fatal(err)
}

// member is a node in a process of its own, and its way to the application's database.
type member struct {
	name, address string
	link          *link.Link
	process       *realserver.Process
}

// campaign is a database, an application with several connections, nodes in processes of their own, and
// workers. Each of them is killed now and then.
type campaign struct {
	t     *testing.T
	pg    *realserver.Postgres
	url   string
	store string
	nodes []*member
	names int
	pace  <-chan time.Time // of transactions; nil: as fast as they can be made

	mu   sync.Mutex
	runs map[string]map[string]bool // ids by job, as the worker got them
	made atomic.Int64               // transactions that were begun
}

func (c *campaign) startNode(m *member) {
	m.process = realserver.Start(c.t, realserver.Program{Path: os.Args[0],
		Args: []string{"-test.run=^" + c.t.Name() + "$", "-test.count=1", "-test.timeout=0"},
		Env: []string{childVariable + "=" + strings.Join([]string{m.name, c.store, m.address,
			strings.Replace(c.url, c.pg.Address(), m.link.Address(), 1)}, " ")}})
}

func (c *campaign) killNode(m *member) {
	if err := m.process.Signal(syscall.SIGKILL); err != nil {
		c.t.Error(err)
	}
	<-m.process.Exited()
}

// work takes runs until ctx ends.
func (c *campaign) work(ctx context.Context, from *client.Client) {
	w := worker.New(from, worker.Options{Grace: -1})
	worker.Handle(w, "fire", func(_ context.Context, run carillon.Run, _ []byte) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.runs[run.Job] == nil {
			c.runs[run.Job] = map[string]bool{}
		}
		c.runs[run.Job][run.ID] = true
		return nil
	})
	for ctx.Err() == nil {
		if err := w.Run(ctx); err != nil && ctx.Err() == nil {
			c.t.Log("the worker:", err)
		}
	}
}

// application makes transactions until there are enough. What they put is in tables of its own, too: those
// are the ledger.
func (c *campaign) application(ctx context.Context, r *rand.Rand) {
	var conn *pgx.Conn
	for c.made.Add(1) <= int64(*transactions) {
		if c.pace != nil {
			<-c.pace
		}
		for conn == nil || conn.IsClosed() {
			conn, _ = pgx.Connect(ctx, c.url) // it may be down
			if ctx.Err() != nil {
				return
			}
		}
		_ = c.transaction(ctx, conn, r) // whether it has committed is in the ledger
	}
	if conn != nil {
		_ = conn.Close(ctx)
	}
}

// Statements of the application.
const (
	putOnce = `SELECT carillon.put_job(jsonb_build_object('name', 'fire/' || $1::text, 'history', '{"runs": -1}'::jsonb,
		'target', '{"worker": {"queue": "fire"}}'::jsonb))`
	noteOnce = `INSERT INTO fired (name) VALUES ('fire/' || $1::text)`
	putNamed = `SELECT carillon.put_job(jsonb_build_object('name', $1::text, 'note', $2::text, 'due_time', '10h',
		'target', '{"worker": {"queue": "never"}}'::jsonb))`
	noteNamed   = `INSERT INTO named VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET note = excluded.note`
	deleteNamed = `SELECT carillon.delete_job($1)`
)

var number atomic.Int64

// transaction puts and deletes at random, with savepoints, and commits or not.
func (c *campaign) transaction(ctx context.Context, conn *pgx.Conn, r *rand.Rand) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	rollback := func() { _ = tx.Rollback(context.WithoutCancel(ctx)) } // its session may have ended
	for range 1 + r.IntN(4) {
		under := tx
		if r.IntN(4) == 0 {
			if under, err = tx.Begin(ctx); err != nil { // a savepoint
				rollback()
				return err
			}
		}
		n := fmt.Sprint(number.Add(1))
		name := fmt.Sprint("named/", r.IntN(c.names))
		b := &pgx.Batch{}
		switch r.IntN(4) {
		case 0:
			b.Queue(deleteNamed, name)
			b.Queue(noteNamed, name, nil)
		case 1:
			b.Queue(putNamed, name, n)
			b.Queue(noteNamed, name, n)
		default:
			b.Queue(putOnce, n)
			b.Queue(noteOnce, n)
		}
		err := under.SendBatch(ctx, b).Close()
		if err == nil && under != tx {
			if r.IntN(2) == 0 {
				err = under.Rollback(ctx)
			} else {
				err = under.Commit(ctx)
			}
		}
		if err != nil {
			rollback()
			return err
		}
	}
	if r.IntN(4) == 0 {
		return tx.Rollback(ctx)
	}
	return tx.Commit(ctx)
}

// faults does something bad each time that so many transactions were made.
func (c *campaign) faults(ctx context.Context, r *rand.Rand, bad ...func(ctx context.Context, r *rand.Rand)) {
	const each = 80
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for done := int64(0); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if made := c.made.Load(); made > int64(*transactions) {
			c.t.Logf("%d faults", done)
			return
		} else if made < each*(done+1) {
			continue
		}
		bad[done%int64(len(bad))](ctx, r)
		done++
	}
}

// nodeDies and starts again.
func (c *campaign) nodeDies(_ context.Context, r *rand.Rand) {
	m := c.nodes[r.IntN(len(c.nodes))]
	c.killNode(m)
	c.startNode(m)
}

// sessionsEnd, some of those that there are.
func (c *campaign) sessionsEnd(_ context.Context, r *rand.Rand) {
	c.pg.Exec(c.t, "postgres", fmt.Sprintf(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND random() < %f`, r.Float64()))
}

// databaseDies and starts again.
func (c *campaign) databaseDies(context.Context, *rand.Rand) {
	c.pg.Crash(c.t)
	<-c.pg.Process().Exited()
	c.pg.Up(c.t)
}

// someTime waits, less than most.
func someTime(ctx context.Context, r *rand.Rand, most time.Duration) {
	select {
	case <-time.After(time.Duration(r.Int64N(int64(most)))):
	case <-ctx.Done():
	}
}

// nodeStandsStill for a time in which another one takes over what it has, or not.
func (c *campaign) nodeStandsStill(ctx context.Context, r *rand.Rand) {
	pid := c.nodes[r.IntN(len(c.nodes))].process.PID() // a signal by the rig would mean that it is to end
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		c.t.Error(err)
	}
	someTime(ctx, r, 20*time.Second)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		c.t.Error(err)
	}
}

// sessionStandsStill: one of a node.
func (c *campaign) sessionStandsStill(ctx context.Context, r *rand.Rand) {
	admin, err := pgx.Connect(ctx, c.url)
	if err != nil {
		c.t.Error(err)
		return
	}
	defer admin.Close(ctx)
	var pids []int
	if err := admin.QueryRow(ctx, `SELECT coalesce(array_agg(pid), '{}') FROM pg_stat_activity
		WHERE application_name = 'carillon outbox'`).Scan(&pids); err != nil {
		c.t.Error(err)
		return
	}
	if len(pids) == 0 {
		return
	}
	pid := pids[r.IntN(len(pids))]
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return // it has ended
	}
	someTime(ctx, r, 5*time.Second)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		c.t.Error(err)
	}
}

// networkIsCut between a node and the database.
func (c *campaign) networkIsCut(ctx context.Context, r *rand.Rand) {
	l := c.nodes[r.IntN(len(c.nodes))].link
	switch r.IntN(3) {
	case 0:
		l.Cut(link.Broken)
	case 1:
		l.Cut(link.Silent)
	default:
		l.CutWay(link.Back, link.Silent)
	}
	someTime(ctx, r, 15*time.Second)
	l.Heal()
}

// TestEveryCommitIsDoneOnceAndNoRollbackEver: random transactions of several connections while the node, the
// database and connections are killed. At the end the ledger, which the same transactions have written, is
// compared: each job that was put has run once, by the ids of its runs, and no other has; and each job that
// was put and deleted again and again is as the last commit has left it.
func TestEveryCommitIsDoneOnceAndNoRollbackEver(t *testing.T) {
	c := newCampaign(t, 1, func() string { return "pebble:" + t.TempDir() + "/store" })
	c.run(c.nodeDies, c.sessionsEnd, c.databaseDies)
}

// TestEveryCommitIsDoneOnceByACluster is the same with three nodes, which also stand still or are cut off from the
// database, while others read.
func TestEveryCommitIsDoneOnceByACluster(t *testing.T) {
	if *transactions <= 600 && os.Getenv(childVariable) == "" {
		t.Skip("it takes minutes: -outbox-transactions 10000")
	}
	c := newCampaign(t, 3, func() string {
		return realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
	})
	pace := time.NewTicker(25 * time.Millisecond)
	defer pace.Stop()
	c.pace = pace.C
	c.run(c.nodeDies, c.nodeStandsStill, c.networkIsCut, c.sessionStandsStill, c.sessionsEnd, c.databaseDies)
}

// newCampaign starts nodes; a child of the test becomes one.
func newCampaign(t *testing.T, nodes int, storeURL func() string) *campaign {
	if args := strings.Fields(os.Getenv(childVariable)); len(args) > 0 {
		child(t, args)
	}
	pg := realserver.StartPostgres(t, "fsync=off", "full_page_writes=off", "deadlock_timeout=100ms")
	c := &campaign{t: t, pg: pg, url: installed(t, pg), store: storeURL(), names: 10,
		runs: map[string]map[string]bool{}}
	pg.Exec(t, "test_1", "CREATE TABLE fired (name text PRIMARY KEY); CREATE TABLE named (name text PRIMARY KEY, note text)")
	for i := range nodes {
		l, err := link.Listen(pg.Address(), link.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		m := &member{name: fmt.Sprint("node-", i), address: fmt.Sprint("127.0.0.1:", realserver.Port(t)), link: l}
		c.nodes = append(c.nodes, m)
		c.startNode(m)
	}
	return c
}

// run makes the transactions and the faults, and compares.
func (c *campaign) run(bad ...func(context.Context, *rand.Rand)) {
	t, seed := c.t, rand.Uint64()
	t.Log("seed", seed)
	working, end := context.WithCancel(t.Context())
	var workers, apps sync.WaitGroup
	defer workers.Wait()
	defer end()
	var from *client.Client
	for _, m := range c.nodes {
		to, err := client.Dial(m.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { to.Close() })
		from = to
		workers.Go(func() { c.work(working, to) })
	}
	for i := range uint64(4) {
		apps.Go(func() { c.application(t.Context(), rand.New(rand.NewPCG(seed, i))) })
	}
	apps.Go(func() { c.faults(t.Context(), rand.New(rand.NewPCG(seed, 99)), bad...) })
	apps.Wait()

	app := session(t, c.url)
	emptied(t, app)
	fired := column(t, app, "SELECT name FROM fired ORDER BY name COLLATE \"C\"")
	realserver.Eventually(t, func() error { return c.compare(fired) })
	for _, row := range column(t, app, "SELECT name || '=' || coalesce(note, '') FROM named") {
		var name, note string
		if n := slices.Index([]byte(row), '='); n > 0 {
			name, note = row[:n], row[n+1:]
		}
		j, err := from.GetJob(t.Context(), carillon.Key{Name: name})
		if errors.Is(err, carillon.NotFound) {
			j, err = carillon.Job{}, nil
		}
		if err != nil || j.Note != note {
			t.Errorf("%s has the note %q, %v; the last commit left %q", name, j.Note, err, note)
		}
	}
	if n := value[int](t, app, "SELECT count(*) FROM carillon.outbox_rejects"); n > 0 {
		t.Errorf("%d commands are refused", n)
	}
	t.Logf("%d transactions were made, %d jobs have run", *transactions, len(fired))
}

// compare compares what has run with what was committed.
func (c *campaign) compare(fired []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for job, ids := range c.runs {
		if len(ids) != 1 {
			c.t.Errorf("%s has run %d times", job, len(ids))
		}
	}
	ran := slices.Sorted(maps.Keys(c.runs))
	for _, job := range ran {
		if _, ok := slices.BinarySearch(fired, job); !ok {
			c.t.Errorf("%s has run, and was rolled back", job)
		}
	}
	if len(ran) < len(fired) {
		return fmt.Errorf("%d jobs have run, %d were committed", len(ran), len(fired))
	}
	return nil
}

func column(t *testing.T, c *pgx.Conn, sql string) []string {
	t.Helper()
	rows, err := c.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return all
}
