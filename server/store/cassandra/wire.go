package cassandra

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// wire is the connection to Cassandra.
//
// The driver knows the nodes by what they have told it. When none of them is there any more, since each came
// back with another address or as another node, it finds nobody. So a connection by which no node can be
// reached for a while is made again from the addresses of the options.
type wire struct {
	opt    *Options
	levels levels

	current atomic.Pointer[gocql.Session]
	reached atomic.Int64 // when a node was, Unix ns

	mu      sync.Mutex
	closed  bool
	again   bool // a connection is being made again
	dialing sync.WaitGroup
}

// statement is one of CQL. Its tables are written without the keyspace, behind a "$".
type statement struct {
	text   string
	values []any
}

// How a node that is cut off is found out.
const (
	dialTimeout = 3 * time.Second
	// reconnectEvery is how often a node that was lost is tried again.
	reconnectEvery = 250 * time.Millisecond
	// firstPause and longestPause are how long a call waits that is made again.
	firstPause   = 10 * time.Millisecond
	longestPause = 500 * time.Millisecond
	// pageRows is how many rows an answer has.
	pageRows = 2000
	// redialAfter is how long no node has been reached when the connection is made again.
	redialAfter = 3 * time.Second
)

func dial(o *Options) (*wire, error) {
	w := &wire{opt: o, levels: levelsOf(o.Datacenter)}
	s, err := connect(o)
	if err != nil {
		return nil, err
	}
	w.current.Store(s)
	w.reached.Store(time.Now().UnixNano())
	return w, nil
}

// connect makes a connection of the driver.
func connect(o *Options) (*gocql.Session, error) {
	c := gocql.NewCluster(o.Addresses...)
	_, port, err := net.SplitHostPort(o.Addresses[0])
	if err == nil {
		c.Port, err = strconv.Atoi(port) // of the nodes that are found by these
	}
	if err != nil {
		return nil, fmt.Errorf("store: %q is no address of Cassandra: %w", o.Addresses[0], err)
	}
	c.Timeout, c.WriteTimeout, c.ConnectTimeout = o.Timeout, o.Timeout, dialTimeout
	c.ReconnectInterval = reconnectEvery
	c.PageSize = pageRows
	c.AddressTranslator = o.translate
	c.Logger = driverLog{o}
	c.Metadata.CacheMode = gocql.KeyspaceOnly
	c.RegisteredTypes = gocql.GlobalTypes.Copy()
	among := gocql.RoundRobinHostPolicy()
	if o.Datacenter != "" {
		among = gocql.DCAwareRoundRobinPolicy(o.Datacenter)
	}
	c.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(among, gocql.DoNotShuffleReplicas())
	if o.Username != "" {
		c.Authenticator = gocql.PasswordAuthenticator{Username: o.Username, Password: o.Password}
	}
	if o.TLS != nil {
		c.SslOpts = &gocql.SslOptions{Config: o.TLS.Clone(), EnableHostVerification: true}
	}
	s, err := c.CreateSession()
	if err != nil {
		return nil, &noSession{err}
	}
	return s, nil
}

// session is the driver's connection, to some nodes.
func (w *wire) session() *gocql.Session { return w.current.Load() }

// close ends all connections. There must be no call any more.
func (w *wire) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.dialing.Wait()
	w.end(w.session())
}

// endWithin is how long the end of a connection of the driver is waited for.
const endWithin = 5 * time.Second

// end ends a connection of the driver. The driver, as of 2.1.2, never comes to that end if it is just
// connecting to a node again: Session.Close first stops what reads the schema and then waits for the
// connecting goroutine, which waits for the schema. So that is not waited for without end; the two goroutines
// of the driver stay.
func (w *wire) end(s *gocql.Session) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Close()
	}()
	patience := time.NewTimer(endWithin)
	defer patience.Stop()
	select {
	case <-ended:
	case <-patience.C:
		w.opt.Log.Warn("the driver of Cassandra does not end a connection that is being made again: it is left behind")
	}
}

// note takes how a call ended: if no node has been reached for a while, the connection is made again.
func (w *wire) note(err error) {
	now := time.Now()
	if !unsent(err) {
		w.reached.Store(now.UnixNano())
		return
	}
	if now.Sub(time.Unix(0, w.reached.Load())) < redialAfter {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.again || w.closed {
		return
	}
	w.again = true
	w.dialing.Go(w.redial)
}

// redial makes the connection again, once.
func (w *wire) redial() {
	s, err := connect(w.opt)
	if err == nil {
		w.opt.Log.Warn("no node of Cassandra was where it had been: connected again from the addresses of the URL")
		old := w.current.Swap(s)
		w.reached.Store(time.Now().UnixNano())
		w.end(old)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again = false
}

func (w *wire) text(s string) string { return strings.ReplaceAll(s, "$", w.opt.Keyspace+".") }

// cas does statements of one partition key, of which some have conditions: all of them if all conditions
// hold, else none. It is sent once. ctx does not bound it.
func (w *wire) cas(ctx context.Context, statements ...statement) (applied bool, err error) {
	ctx = context.WithoutCancel(ctx)
	err = w.repeat(ctx, unsent, func() error {
		b := w.session().Batch(gocql.UnloggedBatch).Consistency(w.levels.regular).SerialConsistency(w.levels.serial)
		for _, s := range statements {
			b.Query(w.text(s.text), s.values...)
		}
		row := map[string]any{}
		var rest *gocql.Iter
		if applied, rest, err = b.MapExecCASContext(ctx, row); err != nil {
			return err
		}
		return rest.Close()
	})
	return applied, err
}

// write does a statement without a condition, which may be done twice. Its time is that of Cassandra, as that
// of conditional batches is: this node's clock may be behind.
func (w *wire) write(ctx context.Context, s statement) error {
	return w.repeat(ctx, away, func() error {
		return w.session().Query(w.text(s.text), s.values...).Consistency(w.levels.regular).
			DefaultTimestamp(false).ExecContext(ctx)
	})
}

// each reads rows and calls f for each of them, whose columns its argument scans. If it must be read again
// after some rows, f is called again for those, after restart.
func (w *wire) each(ctx context.Context, level gocql.Consistency, s statement, restart func(),
	f func(scan func(into ...any) error) error) error {
	var stopped error
	return w.repeat(ctx, func(err error) bool { return stopped == nil && away(err) }, func() error {
		if restart != nil {
			restart()
		}
		q := w.session().Query(w.text(s.text), s.values...).Consistency(level).Idempotent(true)
		rows := q.IterContext(ctx).Scanner()
		for rows.Next() {
			stopped = f(rows.Scan)
			if stopped != nil {
				return stopped
			}
		}
		return rows.Err()
	})
}

// repeat calls f until it succeeds, fails with an error that allows no retry, or the timeout is over. It
// pauses between calls. The driver bounds each request by the same timeout.
func (w *wire) repeat(ctx context.Context, allows func(error) bool, f func() error) error {
	ends := time.Now().Add(w.opt.Timeout)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := f()
		w.note(err)
		if err == nil || !allows(err) || ctx.Err() != nil || !time.Now().Add(pause).Before(ends) {
			return err
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return err
		}
	}
}

// driverLog hands what the driver logs to the store's log. It tells of connections, which operators see in
// what fails.
type driverLog struct{ o *Options }

func (l driverLog) Error(msg string, fields ...gocql.LogField)   { l.tell(msg, fields) }
func (l driverLog) Warning(msg string, fields ...gocql.LogField) { l.tell(msg, fields) }
func (l driverLog) Info(string, ...gocql.LogField)               {}
func (l driverLog) Debug(string, ...gocql.LogField)              {}

func (l driverLog) tell(msg string, fields []gocql.LogField) {
	args := make([]any, 0, 2*len(fields))
	for _, f := range fields {
		args = append(args, f.Name, f.Value.String())
	}
	l.o.Log.Debug("driver of Cassandra: "+msg, args...)
}
