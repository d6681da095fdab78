package realserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/server/internal/testing/link"
)

// PostgresPair is a PostgreSQL primary with an asynchronous standby, behind one address that always leads to
// the primary, as a virtual address or a proxy does. A failover loses what the primary has acknowledged and
// the standby has not received:
//
//	pair := realserver.StartPostgresPair(t, realserver.Volatile()...)
//	url := pair.Database(t)
//	pair.CaughtUp(t) // everything so far survives
//	pair.Stall()     // what is acknowledged from here on is lost
//	…
//	pair.Failover(t) // returns when the new primary takes writes
//	pair.Rejoin(t)   // a new standby, for the next failover
//
// Methods are called by one goroutine at a time.
type PostgresPair struct {
	Primary *Postgres
	Standby *Postgres // nil between Failover and Rejoin

	settings    []string
	front       *link.Link // to the primary
	replication *link.Link // between the two
}

// walKept is how much of its log a primary keeps for a standby that is cut off: all that a test writes.
const walKept = "wal_keep_size=256MB"

// StartPostgresPair starts both servers. Settings are of both; see [StartPostgres].
func StartPostgresPair(t testing.TB, settings ...string) *PostgresPair {
	t.Helper()
	p := &PostgresPair{settings: append([]string{walKept}, settings...)}
	p.Primary = StartPostgres(t, p.settings...)
	p.front = Link(t, p.Primary.Address())
	p.replication = Link(t, p.Primary.Address())
	p.Standby = p.Primary.standby(t, p.replication.Address(), p.settings)
	return p
}

// Link makes a link to an address that ends with the test.
func Link(t testing.TB, target string) *link.Link {
	t.Helper()
	l, err := link.Listen(target, link.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Address leads to the server that is the primary at the time of connecting.
func (p *PostgresPair) Address() string { return p.front.Address() }

// Database makes an empty database, waits until the standby has it, and returns its URL at
// [PostgresPair.Address].
func (p *PostgresPair) Database(t testing.TB) string {
	t.Helper()
	url := strings.Replace(p.Primary.Database(t), p.Primary.Address(), p.Address(), 1)
	p.CaughtUp(t)
	return url
}

// CaughtUp waits until the standby has everything that was committed before the call.
func (p *PostgresPair) CaughtUp(t testing.TB) {
	t.Helper()
	var written string
	p.Primary.Process().Ready(t, func(ctx context.Context) error {
		var err error
		written, err = p.Primary.text(ctx, "SELECT pg_current_wal_insert_lsn()::text")
		return err
	})
	p.Standby.Process().Ready(t, func(ctx context.Context) error {
		has, err := p.Standby.text(ctx, fmt.Sprintf("SELECT (pg_last_wal_replay_lsn() >= '%s')::text",
			written))
		if err == nil && has != "true" {
			err = errors.New("the standby has not caught up")
		}
		return err
	})
}

// Stall cuts the standby off from the primary, which goes on acknowledging writes: a failover loses them.
func (p *PostgresPair) Stall() { p.replication.Cut(link.Silent) }

// Resume ends [PostgresPair.Stall]: the standby catches up.
func (p *PostgresPair) Resume() { p.replication.Heal() }

// Failover kills the primary, promotes the standby, and leads the address to it. It returns when the new
// primary takes writes.
func (p *PostgresPair) Failover(t testing.TB) {
	t.Helper()
	p.Primary.Crash(t)
	p.Promote(t)
}

// Promote does what [PostgresPair.Failover] does, but the old primary lives: sessions that avoid the address
// could write to it.
func (p *PostgresPair) Promote(t testing.TB) {
	t.Helper()
	p.replication.Cut(link.Silent) // or the old primary's last words might still arrive
	p.Standby.Exec(t, "postgres", "SELECT pg_promote()")
	p.front.Redirect(p.Standby.Address())
	p.Primary, p.Standby = p.Standby, nil
}

// Rejoin starts a new standby, which follows the primary of now. Earlier servers but that one are not needed
// any more.
func (p *PostgresPair) Rejoin(t testing.TB) {
	t.Helper()
	p.replication.Redirect(p.Primary.Address())
	p.replication.Heal()
	p.Standby = p.Primary.standby(t, p.replication.Address(), p.settings)
}

// text asks for one value in the database that is always there.
func (p *Postgres) text(ctx context.Context, sql string) (value string, err error) {
	c, err := pgx.Connect(ctx, p.URL("postgres"))
	if err != nil {
		return "", err
	}
	err = c.QueryRow(ctx, sql).Scan(&value)
	return value, errors.Join(err, c.Close(ctx))
}

// Discard ends the server for good and removes its data, which a test of many failovers would pile up.
func (p *Postgres) Discard(t testing.TB) {
	t.Helper()
	p.Crash(t)
	if err := os.RemoveAll(filepath.Dir(p.Folder)); err != nil {
		t.Error(err)
	}
}
