package outbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// How long things may take.
const (
	connectWithin   = 5 * time.Second
	statementWithin = 15 * time.Second
	pingWithin      = 3 * time.Second
	conns           = 4 // one listens, one says whether it looks, one is read and written by, one forgets
)

// sessionSQL is what every session of a node sets. What a node writes need not be on the disk before it
// goes on: a row that comes back after a crash is done again, which changes nothing. A node that vanished
// holds its lock for a short time only. What the planner knows of the tables is old when many rows have come
// at once: it is to use the indexes all the same.
var sessionSQL = fmt.Sprintf(`
SELECT set_config('idle_session_timeout', '30s', false)
	WHERE current_setting('server_version_num')::int >= 140000;
SET client_min_messages = warning;
SET default_transaction_isolation = 'read committed';
SET synchronous_commit = off;
SET statement_timeout = %d;
SET lock_timeout = %[1]d;
SET idle_in_transaction_session_timeout = %[1]d;
SET tcp_keepalives_idle = 5;
SET tcp_keepalives_interval = 2;
SET tcp_keepalives_count = 3;
SET tcp_user_timeout = %[1]d;
SET jit = off;
SET enable_seqscan = off`, statementWithin.Milliseconds())

// keepAlive finds out within seconds that the other end is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}

// poolConfig reads the URL of an application's database.
func poolConfig(url string) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("the URL of PostgreSQL: %w", err) // pgx leaves out the password
	}
	c.MaxConns, c.MinConns = conns, 0
	c.MaxConnIdleTime, c.HealthCheckPeriod = 15*time.Second, 5*time.Second // before the server ends the session
	cc := c.ConnConfig
	if cc.ConnectTimeout == 0 || cc.ConnectTimeout > connectWithin {
		cc.ConnectTimeout = connectWithin
	}
	if cc.ValidateConnect == nil {
		cc.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite // of several hosts, the primary
	}
	cc.DialFunc = (&net.Dialer{Timeout: cc.ConnectTimeout, KeepAliveConfig: keepAlive}).DialContext
	cc.RuntimeParams["client_encoding"] = "UTF8"
	if cc.RuntimeParams["application_name"] == "" {
		cc.RuntimeParams["application_name"] = "carillon outbox"
	}
	c.PingTimeout = pingWithin
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.PgConn().Exec(ctx, sessionSQL).ReadAll()
		return err
	}
	return c, nil
}

// CheckURL says what is wrong with the URL of an application's database; it connects to nothing.
func CheckURL(url string) error {
	_, err := poolConfig(url)
	return err
}

// errNotInstalled is why an outbox cannot be read.
var errNotInstalled = errors.New("there is no outbox in this database, or no right to read it: carillon outbox install makes it")

// codeOf returns the SQLSTATE of an error, if it is one of the server's.
func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// isTimeout reports whether a statement took too long.
func isTimeout(err error) bool { return codeOf(err) == codeCanceled || codeOf(err) == codeNoLock }

// SQLSTATEs.
const (
	codeNoTable  = "42P01"
	codeNoSchema = "3F000"
	codeNoRight  = "42501"
	codeCanceled = "57014" // by statement_timeout
	codeNoLock   = "55P03" // by lock_timeout
)

// checkVersion refuses tables that this version does not know.
func checkVersion(ctx context.Context, c rower) error {
	var version int
	err := c.QueryRow(ctx, "SELECT version FROM carillon.outbox_settings").Scan(&version)
	switch code := codeOf(err); {
	case code == codeNoTable, code == codeNoSchema, code == codeNoRight, errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w (%w)", errNotInstalled, err)
	case err != nil:
		return err
	case version > Version:
		return fmt.Errorf("the outbox is of version %d, this node knows up to %d: upgrade the node", version,
			Version)
	}
	return nil
}

// rower is a connection, a pool or a transaction.
type rower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}
