package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// How long things may take. A lease of the engine is 15 s: what takes longer than these is of an owner that
// is about to lose its partitions.
const (
	connectTimeout = 5 * time.Second
	acquireTimeout = 10 * time.Second // of a connection of the pool
	// of a group, on the wire; more than the server takes to give up a statement.
	commitTimeout    = 12 * time.Second
	readTimeout      = 12 * time.Second // of a read
	statementTimeout = 10 * time.Second // on the server
	lockTimeout      = 5 * time.Second  // on the server
	pingTimeout      = 3 * time.Second  // of a connection that was idle, before it is used
)

// Connections of a store.
const (
	defaultConns = 16 // pool_max_conns of the URL says otherwise
	maxConns     = 200
	// leases are renewed however busy the others are: one to claim, one to renew, one to end who blocks a
	// claim.
	leaseConns = 3
)

// sessionSQL is what every session sets. A commit that was acknowledged is durable even where the server's
// default is not; every statement sees what was committed before it; a client that vanished holds its locks
// for a short time only, and has nothing done any more (servers of other systems than Linux may refuse to
// look). That a commit was not waited for is told as a warning. All queries have an index made for them: a
// plan that reads a whole table, or sorts it, is one of a table that was never analysed. Whether transactions
// may write is left to the server: an operator who forbids it has a reason.
var sessionSQL = fmt.Sprintf(`
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
SELECT set_config('client_connection_check_interval', '2s', false)
	WHERE current_setting('server_version_num')::int >= 140000 AND version() LIKE '%%linux%%';
SET client_min_messages = warning;
SET default_transaction_isolation = 'read committed';
SET statement_timeout = %d;
SET lock_timeout = %d;
SET idle_in_transaction_session_timeout = %[1]d;
SET tcp_keepalives_idle = 5;
SET tcp_keepalives_interval = 2;
SET tcp_keepalives_count = 3;
SET tcp_user_timeout = %[1]d;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET plan_cache_mode = force_generic_plan;
SET jit = off;
SET carillon.session = 'set'`, statementTimeout.Milliseconds(), lockTimeout.Milliseconds())

// keepAlive finds out within seconds that the other end is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}

// poolConfig reads a URL.
func poolConfig(url string) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("store: the URL of PostgreSQL: %w", err) // pgx leaves out the password
	}
	if !strings.Contains(url, "pool_max_conns") {
		c.MaxConns = defaultConns
	}
	if c.MaxConns > maxConns {
		return nil, fmt.Errorf("store: pool_max_conns is %d: must be from 1 to %d", c.MaxConns, maxConns)
	}
	cc := c.ConnConfig
	switch mode := cc.DefaultQueryExecMode; mode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return nil, fmt.Errorf("store: default_query_exec_mode is %v: must be cache_statement, cache_describe or describe_exec",
			mode)
	}
	if cc.ConnectTimeout == 0 || cc.ConnectTimeout > connectTimeout {
		cc.ConnectTimeout = connectTimeout
	}
	if cc.ValidateConnect == nil {
		// of several hosts, the one that takes writes
		cc.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	cc.DialFunc = (&net.Dialer{Timeout: cc.ConnectTimeout, KeepAliveConfig: keepAlive}).DialContext
	if cc.RuntimeParams["application_name"] == "" {
		cc.RuntimeParams["application_name"] = "carillon"
	}
	cc.OnNotice = noteUnreplicated
	c.PingTimeout = pingTimeout
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.PgConn().Exec(ctx, sessionSQL).ReadAll()
		return err
	}
	return c, nil
}

// CheckURL says what is wrong with a URL; it connects to nothing.
func CheckURL(url string) error {
	_, err := poolConfig(url)
	return err
}

// withoutCancels has connections not ask the server to cancel what it does when they are given up. A commit
// that waits for a synchronous standby would then be done without: what nobody was told, and the standby does
// not have, could be read.
func withoutCancels(c *pgxpool.Config) {
	c.BeforeConnect = func(_ context.Context, cc *pgx.ConnConfig) error {
		var connected atomic.Bool
		dial := cc.DialFunc
		cc.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			if connected.Load() {
				return nil, errNoCancel
			}
			return dial(ctx, network, address)
		}
		cc.AfterConnect = func(context.Context, *pgconn.PgConn) error {
			connected.Store(true)
			return nil
		}
		return nil
	}
}

// errNoCancel is why a connection that was made is not made again.
var errNoCancel = errors.New("what the server does is not cancelled")

// unreplicated is the name of a mark on a connection.
const unreplicated = "carillon: unreplicated"

// noteUnreplicated marks the connection of a commit that is told as done, and only warned of: an operator has
// cancelled its wait for a synchronous standby, so the standby may not have it.
func noteUnreplicated(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" {
		c.CustomData()[unreplicated] = true
	}
}
