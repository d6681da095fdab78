package redisbroker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// Options configure a client.
type Options struct {
	Addresses []string // host:port of a server, or of servers of one cluster; at least one
	TLS       *tls.Config
	User      string // "": that of a password alone
	Password  string
	Database  int
	// MaxLength is about how many entries a stream keeps: the oldest are removed. 0: all.
	MaxLength int64
}

const (
	dialTimeout = 5 * time.Second
	// answerTimeout is how long a server may say nothing before its connection is given up.
	answerTimeout = 10 * time.Second
)

// Client adds entries to the streams of a Redis server or cluster. It is a [broker.Client].
type Client struct {
	option    rueidis.ClientOption
	maxLength int64
	stop      context.Context
	end       context.CancelFunc

	mu      sync.Mutex
	client  rueidis.Client // nil: none
	largest int            // bytes of data that the server takes
	opening *opening       // nil: nobody does
	closed  bool
	work    sync.WaitGroup // of goroutines and publishes
}

// opening is an attempt to connect, for all who wait for it.
type opening struct {
	over   chan struct{} // closed at its end
	client rueidis.Client
	err    error
}

// New returns a client. It connects at the first publish.
func New(o Options) (*Client, error) {
	if len(o.Addresses) == 0 {
		return nil, errors.New("addresses: there is none; give host:port, for example localhost:6379")
	}
	for i, a := range o.Addresses {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("addresses[%d]: %q is not host:port; write for example localhost:6379", i, a)
		}
	}
	switch {
	case o.Database < 0:
		return nil, fmt.Errorf("database: %d is negative", o.Database)
	case o.MaxLength < 0:
		return nil, fmt.Errorf("max_length: %d is negative", o.MaxLength)
	case o.User != "" && o.Password == "":
		return nil, errors.New("password_file: it is missing; there is a user")
	}
	c := &Client{maxLength: o.MaxLength}
	c.stop, c.end = context.WithCancel(context.Background())
	c.option = rueidis.ClientOption{
		InitAddress: o.Addresses, Username: o.User, Password: o.Password, SelectDB: o.Database, TLSConfig: o.TLS,
		ClientName: "carillon", Dialer: net.Dialer{Timeout: dialTimeout}, ConnWriteTimeout: answerTimeout,
		DialCtxFn: c.dial, DisableCache: true, DisableRetry: true, PipelineMultiplex: 1,
	}
	return c, nil
}

// Publish implements [broker.Client]. It returns when Redis has answered: so the entries of one caller are in
// the order of its calls.
func (c *Client) Publish(ctx context.Context, ms []broker.Message, done func(i int, err error)) {
	client, leave, err := c.enter(ctx)
	if err == nil && ctx.Err() != nil {
		leave()
		err = ctx.Err()
	}
	if err != nil {
		for i := range ms {
			done(i, fmt.Errorf("%w: connect: %w", broker.ErrUnsent, err))
		}
		return
	}
	defer leave()
	largest := c.most()
	adds, of := make(rueidis.Commands, 0, len(ms)), make([]int, 0, len(ms))
	for i := range ms {
		if ms[i].To.Redis == nil || ms[i].To.Redis.Stream == "" {
			done(i, fmt.Errorf("%w: the target names no stream of Redis", broker.ErrRefused))
			continue
		}
		if n := len(ms[i].Data); n > largest {
			done(i, fmt.Errorf("%w: it has %d bytes, and the server takes %d", broker.ErrRefused, n, largest))
			continue
		}
		adds, of = append(adds, c.add(client, &ms[i])), append(of, i)
	}
	for n, r := range client.DoMulti(ctx, adds...) {
		done(of[n], judge(r.Error(), ms[of[n]].To.Redis.Stream))
	}
}

// add is the command that adds a message to its stream.
func (c *Client) add(client rueidis.Client, m *broker.Message) rueidis.Completed {
	args := make([]string, 0, 2*len(m.Headers)+8)
	if c.maxLength > 0 {
		args = append(args, "MAXLEN", "~", strconv.FormatInt(c.maxLength, 10))
	}
	args = append(args, "*")
	for _, h := range m.Headers {
		args = append(args, h.Name, h.Value)
	}
	if m.ContentType != "" {
		args = append(args, "content-type", m.ContentType)
	}
	args = append(args, "data", rueidis.BinaryString(m.Data))
	return client.B().Arbitrary(addCommand).Keys(m.To.Redis.Stream).Args(args...).Build()
}

// addCommand is the command that adds an entry.
const addCommand = "XADD"

// Errors of Redis. Whatever is in none of them may come from a proxy, or from the library's login.
var (
	// passing are the first words of those of a command that was not done, and would be another time.
	passing = []string{"LOADING", "MASTERDOWN", "CLUSTERDOWN", "READONLY", "TRYAGAIN", "BUSY", "OOM", "MISCONF",
		"NOREPLICAS"}
	// outside are the first words of those of a connection that takes no command, or not this one.
	outside = []string{"NOAUTH", "WRONGPASS", "DENIED", "NOPERM", "MOVED", "ASK"}
	// lasting are parts of those of an entry that would be refused again. They have no first word: the library
	// cuts off ERR.
	lasting = []string{"string exceeds maximum allowed size", "exhausted the last possible ID"}
	// strange are parts of those of a server that has no streams: another one than was meant.
	strange = []string{"unknown command 'XADD'", "unknown command `XADD`"}
)

// crowded is said to a connection that is one too many.
const crowded = "max number of clients reached"

// judge says what an answer means.
func judge(err error, stream string) error {
	if err == nil {
		return nil
	}
	if _, dialled := errors.AsType[*dialError](err); dialled {
		return fmt.Errorf("%w: connect: %w", broker.ErrUnsent, err)
	}
	answer, ok := rueidis.IsRedisErr(err)
	if !ok {
		return fmt.Errorf("connection: %w", err)
	}
	text := answer.Error()
	word, rest, _ := strings.Cut(text, " ")
	rest = strings.ToLower(rest)
	switch {
	case word == "WRONGTYPE":
		return fmt.Errorf("%w: %q is no stream: %s", broker.ErrRefused, stream, text)
	case word == "NOPERM" && (strings.Contains(rest, "'xadd'") || strings.Contains(rest, "access a key") ||
		strings.Contains(rest, "one of the keys")):
		return fmt.Errorf("%w: the user may not add to %q: %s", broker.ErrRefused, stream, text)
	case slices.Contains(passing, word), slices.Contains(outside, word), text == crowded:
		return fmt.Errorf("%w: %s", broker.ErrUnsent, text)
	case containsAny(text, strange):
		return fmt.Errorf("%w: the server has no streams: it is a Sentinel, or older than Redis 5; "+
			"give addresses of primaries: %.80s", broker.ErrUnsent, text)
	case containsAny(text, lasting):
		return fmt.Errorf("%w: %s", broker.ErrRefused, text)
	}
	return fmt.Errorf("the server answers %q", text)
}

func containsAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// enter returns the connections, made if there are none; leave ends their use.
func (c *Client) enter(ctx context.Context) (client rueidis.Client, leave func(), err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, nil, errors.New("the client is closed")
	}
	c.work.Add(1)
	if c.client != nil {
		defer c.mu.Unlock()
		return c.client, c.work.Done, nil
	}
	o := c.opening
	if o == nil {
		o = &opening{over: make(chan struct{})}
		c.opening = o
		c.work.Go(func() { c.open(o) })
	}
	c.mu.Unlock()
	select {
	case <-o.over:
		client, err = o.client, o.err
	case <-ctx.Done():
		err = fmt.Errorf("no connection in time: %w", ctx.Err())
	}
	if err != nil {
		c.work.Done()
		return nil, nil, err
	}
	return client, c.work.Done, nil
}

// most is how many bytes of data the server takes.
func (c *Client) most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.largest
}

// largestOf asks for the most bytes that a server takes: it ends the connection over more, with everything
// that is under way. A user who may not ask has the server's default.
func largestOf(ctx context.Context, client rueidis.Client) int {
	const setting, usual = "proto-max-bulk-len", 512 << 20
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	all, err := client.Do(ctx, client.B().ConfigGet().Parameter(setting).Build()).AsStrMap()
	if err != nil {
		return usual
	}
	n, err := strconv.Atoi(all[setting])
	if err != nil {
		return usual
	}
	return n
}

// open connects, for those who wait for o.
func (c *Client) open(o *opening) {
	largest := 0
	if o.client, o.err = rueidis.NewClient(c.option); o.err == nil {
		largest = largestOf(c.stop, o.client)
	}
	c.mu.Lock()
	c.largest = largest
	c.opening = nil
	if o.err == nil && c.closed {
		o.client.Close()
		o.client, o.err = nil, errors.New("the client is closed")
	}
	if o.err == nil {
		c.client = o.client
	}
	c.mu.Unlock()
	close(o.over)
}

// Close implements [broker.Client].
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	client := c.client
	c.client = nil
	c.mu.Unlock()
	c.end()
	if client != nil {
		client.Close()
	}
	c.work.Wait()
	return nil
}
