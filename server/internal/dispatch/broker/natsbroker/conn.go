package natsbroker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// conn is one connection. It is never repaired: what was under way when it broke may have arrived, and the
// library would not say. The client makes another one.
type conn struct {
	client *Client
	nc     *nats.Conn
	reply  string        // begins the subjects that acknowledgements come to
	closed chan struct{} // closed when the connection is

	mu      sync.Mutex
	newest  uint64
	pending map[string]*pending   // by what follows reply
	lookups map[string][]*pending // by subject: nobody took them, and JetStream is asked why
	watches map[string]*watch     // by subject, of core NATS; that of "" has what is said of no subject
	heard   error                 // the last thing that the server complained about
	over    bool                  // it is closed, and all complaints were heard
	hears   *sync.Cond
}

// pending is a message that is not acknowledged.
type pending struct {
	batch   *batch
	i       int
	subject string
}

// watch is how often the server said that a subject may not be published to, while batches have it.
type watch struct{ batches, denied int }

// batch is what was published together. The client waits for it.
type batch struct {
	client  *Client
	done    func(i int, err error)
	left    atomic.Int64
	unwatch func() bool // of the context's end
}

// newConn connects.
func newConn(c *Client) (*conn, error) {
	n := &conn{client: c, closed: make(chan struct{}), pending: map[string]*pending{},
		lookups: map[string][]*pending{}, watches: map[string]*watch{}}
	n.hears = sync.NewCond(&n.mu)
	options := append(slices.Clone(c.options),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { n.complaint(err) }),
		nats.ClosedHandler(func(nc *nats.Conn) {
			err := nc.LastError()
			if err == nil {
				err = errors.New("it was closed")
			}
			n.mu.Lock()
			n.over = true
			n.hears.Broadcast()
			n.mu.Unlock()
			n.fail(fmt.Errorf("connection: %w", err))
			close(n.closed)
		}))
	nc, err := nats.Connect(c.servers, options...)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	n.mu.Lock()
	n.nc = nc
	if n.heard == nil {
		n.heard = nc.LastError() // of an address before
	}
	n.mu.Unlock()
	n.reply = nats.NewInbox() + "."
	if !c.core {
		if _, err = nc.Subscribe(n.reply+"*", n.acknowledged); err == nil {
			err = nc.FlushTimeout(connectTimeout)
		}
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	return n, nil
}

// publish sends messages, in order.
func (n *conn) publish(ctx context.Context, ms []broker.Message, done func(i int, err error)) {
	b := &batch{client: n.client, done: done}
	b.left.Store(int64(len(ms)) + 1) // one until it is watched
	ids := make([]string, len(ms))
	var before map[string]int
	if n.client.core {
		before = n.watch(ms)
	}
	for i := range ms {
		if ms[i].To.NATS == nil || ms[i].To.NATS.Subject == "" {
			done(i, fmt.Errorf("%w: the target names no subject of NATS", broker.ErrRefused))
			b.over()
			continue
		}
		ids[i] = n.add(&pending{batch: b, i: i, subject: ms[i].To.NATS.Subject})
		m := natsMessage(&ms[i])
		if !n.client.core {
			m.Reply = n.reply + ids[i]
		}
		if err := n.nc.PublishMsg(m); err != nil {
			n.end(ids[i], publishError(err, n.nc.MaxPayload()))
		}
	}
	stop := context.AfterFunc(ctx, func() {
		for _, id := range ids {
			n.end(id, ctx.Err())
		}
	})
	b.unwatch = stop
	b.over()
	if n.client.core {
		n.client.run(func() { n.flush(ctx, ids, before) })
	}
}

// publishError says why a message was not taken.
func publishError(err error, most int64) error {
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: the message is larger than the server takes, %d bytes", broker.ErrRefused, most)
	case errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrHeadersNotSupported):
		return fmt.Errorf("%w: %w", broker.ErrRefused, err)
	case errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("%w: the connection is closed", broker.ErrUnsent)
	}
	return fmt.Errorf("connection: %w", err)
}

// flush waits until the server has what was published to core NATS.
func (n *conn) flush(ctx context.Context, ids []string, before map[string]int) {
	err := n.nc.FlushWithContext(ctx)
	if err != nil {
		err = fmt.Errorf("connection: %w", err)
	} else {
		err = n.listen(ctx)
	}
	denied := n.unwatch(before)
	if err == nil && denied[""] {
		err = errors.New("the server denied a message, and does not say which")
	}
	for _, id := range ids {
		p := n.take(id)
		switch {
		case p == nil:
		case denied[p.subject]:
			p.end(mayNot(p.subject))
		default:
			p.end(err)
		}
	}
}

// listen waits until all complaints that came before a flush were heard.
func (n *conn) listen(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		n.mu.Lock() // else it may fall between the look at ctx and the wait
		defer n.mu.Unlock()
		n.hears.Broadcast()
	})
	defer stop()
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		last := n.nc.LastError()
		switch {
		case last == nil || last == n.heard: //nolint:errorlint // the same one
			return nil
		case n.over:
			return fmt.Errorf("connection: %w", last)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		n.hears.Wait()
	}
}

// watch counts what the server denies of messages' subjects, until unwatch. It returns the counts so far.
func (n *conn) watch(ms []broker.Message) (before map[string]int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before = map[string]int{}
	add := func(subject string) {
		if _, has := before[subject]; has {
			return
		}
		w := n.watches[subject]
		if w == nil {
			w = &watch{}
			n.watches[subject] = w
		}
		w.batches++
		before[subject] = w.denied
	}
	add("")
	for i := range ms {
		if t := ms[i].To.NATS; t != nil {
			add(t.Subject)
		}
	}
	return before
}

// unwatch ends what watch began, and returns the subjects that were denied.
func (n *conn) unwatch(before map[string]int) (denied map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	denied = map[string]bool{}
	for subject, count := range before {
		w := n.watches[subject]
		denied[subject] = w.denied > count
		if w.batches--; w.batches == 0 {
			delete(n.watches, subject)
		}
	}
	return denied
}

func mayNot(subject string) error {
	return fmt.Errorf("%w: the user may not publish to %q", broker.ErrRefused, subject)
}

// deniedPublish begins what a server says of a subject that may not be published to, after what the library
// says. The subject follows as a string of Go.
const deniedPublish = "permissions violation for publish to "

// deniedSubject returns the subject that the server says may not be published to; "" if it cannot be read.
func deniedSubject(text string) (subject string, denied bool) {
	at := strings.Index(strings.ToLower(text), deniedPublish)
	if at < 0 {
		return "", false
	}
	quoted, err := strconv.QuotedPrefix(text[at+len(deniedPublish):])
	if err != nil {
		return "", true
	}
	if subject, err = strconv.Unquote(quoted); err != nil {
		return "", true
	}
	return subject, true
}

// complaint takes what the server says that is about no message in particular.
func (n *conn) complaint(err error) {
	subject, is := deniedSubject(err.Error())
	var denied []*pending
	n.mu.Lock()
	n.heard = err
	if w := n.watches[subject]; is && w != nil {
		w.denied++
	}
	if is && !n.client.core {
		for id, p := range n.pending {
			if p.subject == subject {
				denied = append(denied, p)
				delete(n.pending, id)
			}
		}
	}
	n.hears.Broadcast()
	n.mu.Unlock()
	for _, p := range denied {
		p.end(mayNot(subject))
	}
}

// acknowledged takes the answer of a stream, or that nobody listens to the subject.
func (n *conn) acknowledged(m *nats.Msg) {
	p := n.take(strings.TrimPrefix(m.Subject, n.reply))
	if p == nil {
		return
	}
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		n.lookUp(p)
		return
	}
	p.end(ackError(m.Data))
}

// ackError says what a stream's answer means.
func ackError(data []byte) error {
	var ack struct {
		Stream string
		Error  *struct {
			Code        int
			ErrCode     int `json:"err_code"`
			Description string
		}
	}
	const tooLarge, sealed = 10054, 10109
	switch err := json.Unmarshal(data, &ack); {
	case err != nil || ack.Error == nil && ack.Stream == "":
		return fmt.Errorf("%q answers, which is no acknowledgement of JetStream", data[:min(len(data), 80)])
	case ack.Error == nil:
		return nil
	case ack.Error.ErrCode == tooLarge || ack.Error.ErrCode == sealed:
		return fmt.Errorf("%w by the stream: %s", broker.ErrRefused, ack.Error.Description)
	default:
		return fmt.Errorf("the stream did not take it: %s", ack.Error.Description)
	}
}

// lookUp ends a message that nobody has taken: there is no stream for its subject, or JetStream is away.
func (n *conn) lookUp(p *pending) {
	n.mu.Lock()
	all, under := n.lookups[p.subject]
	n.lookups[p.subject] = append(all, p)
	n.mu.Unlock()
	if under {
		return
	}
	n.client.run(func() {
		err := n.whyUntaken(p.subject)
		n.mu.Lock()
		all := n.lookups[p.subject]
		delete(n.lookups, p.subject)
		n.mu.Unlock()
		for _, p := range all {
			p.end(err)
		}
	})
}

// whyUntaken returns why nobody has taken messages to a subject.
func (n *conn) whyUntaken(subject string) error {
	ctx, cancel := context.WithTimeout(n.client.stop, connectTimeout)
	defer cancel()
	ask, err := json.Marshal(map[string]string{"subject": subject})
	if err != nil {
		return err
	}
	m, err := n.nc.RequestWithContext(ctx, "$JS.API.STREAM.NAMES", ask)
	if err != nil {
		return fmt.Errorf("%w: nobody takes subject %q, and JetStream does not say why (%w); "+
			"without JetStream, say core: true in the brokers' file", broker.ErrUnsent, subject, err)
	}
	var names struct {
		Streams []string
		Error   *struct{ Description string }
	}
	switch err := json.Unmarshal(m.Data, &names); {
	case err != nil:
		return fmt.Errorf("%w: nobody takes subject %q, and JetStream does not say why: %w", broker.ErrUnsent,
			subject, err)
	case names.Error != nil:
		return fmt.Errorf("%w: nobody takes subject %q: %s", broker.ErrUnsent, subject, names.Error.Description)
	case len(names.Streams) == 0:
		return fmt.Errorf("%w: no stream of JetStream has subject %q", broker.ErrRefused, subject)
	}
	return fmt.Errorf("%w: stream %s has no leader at present", broker.ErrUnsent, names.Streams[0])
}

// add notes a message that is about to be published.
func (n *conn) add(p *pending) (id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.newest++
	id = strconv.FormatUint(n.newest, 36)
	n.pending[id] = p
	return id
}

// take removes a message; nil: it has ended.
func (n *conn) take(id string) *pending {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pending[id]
	delete(n.pending, id)
	return p
}

// end ends a message, unless it has ended.
func (n *conn) end(id string, err error) {
	if p := n.take(id); p != nil {
		p.end(err)
	}
}

// fail ends all messages: the connection is no more.
func (n *conn) fail(err error) {
	n.mu.Lock()
	all := n.pending
	n.pending = map[string]*pending{}
	n.mu.Unlock()
	for _, p := range all {
		p.end(err)
	}
}

func (p *pending) end(err error) {
	p.batch.done(p.i, err)
	p.batch.over()
}

// over counts one message that has ended.
func (b *batch) over() {
	if b.left.Add(-1) == 0 {
		b.unwatch()
		b.client.work.Done()
	}
}
