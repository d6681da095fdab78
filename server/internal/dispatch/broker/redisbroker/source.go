package redisbroker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// Source takes the entries of a stream, as a consumer of a group, which it makes if there is none. Entries
// that another consumer has taken and left alone for a time are taken over.
type Source struct {
	client *Client // for its options; it adds nothing
	topic  string
	group  string
	name   string // of the consumer
	most   int
	from   string // where to look on for entries that were left alone; "": not now. Receive's alone

	mu      sync.Mutex
	redis   rueidis.Client // nil: none
	closed  bool
	lag     int64 // as of the last look; -1: unknown
	looked  time.Time
	open    map[string]*entry // by id
	acks    []string          // ids to acknowledge
	unsent  bool              // acknowledgements have failed, and none has succeeded since
	given   []string          // ids that are released
	wake    chan struct{}     // there are some
	ending  chan struct{}     // closed by Close
	working sync.WaitGroup    // the one goroutine, that answers for entries
}

// entry is one that was received.
type entry struct{ lost bool }

const (
	readMost  = 256
	blockFor  = 2 * time.Second
	lookEvery = 5 * time.Second
	// idleFor is how long an entry may be left alone until another consumer takes it over. One that is being
	// handled is claimed again before.
	idleFor    = 30 * time.Second
	claimEvery = idleFor / 3
	leftAlone  = 24 * time.Hour // what is said of an entry that is released
	// firstPending is before all entries that are taken; Redis also says so at their end.
	firstPending = "0-0"
	askWithin    = 5 * time.Second
)

// NewSource makes a source, which connects at the first Receive.
func NewSource(o Options, s broker.Subscription) (*Source, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	r := &Source{client: c, topic: s.Topic, group: s.Group, name: "carillon-" + rand.Text(), most: s.InFlight,
		lag: -1, open: map[string]*entry{}, wake: make(chan struct{}, 1), ending: make(chan struct{})}
	r.working.Go(r.answer)
	return r, nil
}

// Receive implements [broker.Source].
func (s *Source) Receive(ctx context.Context) ([]*broker.Delivery, error) {
	all, err := s.read(ctx)
	switch {
	case len(all) > 0:
		return all, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		s.drop()
		return nil, fmt.Errorf("redis: stream %q: %w", s.topic, err)
	}
	return nil, nil
}

// read takes over what others have left alone, now and then, or takes what is new.
func (s *Source) read(ctx context.Context) ([]*broker.Delivery, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	due, unsent := time.Since(s.looked) >= lookEvery, s.unsent
	s.mu.Unlock()
	if unsent { // who takes no acknowledgements is to give no messages, and that is to be seen
		if err := s.sendAcks(); err != nil {
			return nil, fmt.Errorf("acknowledgements are not taken: %w", err)
		}
	}
	if due {
		if err := s.look(ctx, c); err != nil {
			return nil, err
		}
		s.from = firstPending
	}
	for s.from != "" {
		if all, err := s.takeOver(ctx, c); err != nil || len(all) > 0 {
			return all, err
		}
	}
	read, err := c.Do(ctx, c.B().Arbitrary("XREADGROUP").Args("GROUP", s.group, s.name, "COUNT",
		strconv.Itoa(min(readMost, s.most)), "BLOCK", millis(blockFor), "STREAMS").Keys(s.topic).Args(">").
		Blocking()).AsXRead()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	return s.take(read[s.topic]), err
}

// takeOver takes entries that others have left alone, of a part of those that are taken. Redis looks at some
// of them at a time, and says where it has ended.
func (s *Source) takeOver(ctx context.Context, c rueidis.Client) ([]*broker.Delivery, error) {
	answer, err := c.Do(ctx, c.B().Arbitrary("XAUTOCLAIM").Keys(s.topic).Args(s.group, s.name, millis(idleFor),
		s.from, "COUNT", strconv.Itoa(readMost)).Build()).ToArray()
	if err != nil || len(answer) < 2 {
		return nil, errors.Join(err, errShort(len(answer)))
	}
	next, err := answer[0].ToString()
	if err != nil {
		return nil, err
	}
	if s.from = next; next == firstPending {
		s.from = "" // it was at the end
	}
	entries, err := answer[1].AsXRange()
	return s.take(entries), err
}

func errShort(n int) error {
	if n >= 2 {
		return nil
	}
	return fmt.Errorf("XAUTOCLAIM has %d answers", n)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// connect returns a connected client of a group that is there.
func (s *Source) connect(ctx context.Context) (rueidis.Client, error) {
	s.mu.Lock()
	c, closed := s.redis, s.closed
	s.mu.Unlock()
	if closed {
		return nil, errors.New("the source is closed")
	}
	if c != nil {
		return c, nil
	}
	c, err := rueidis.NewClient(s.client.option)
	if err != nil {
		return nil, err
	}
	err = c.Do(ctx, c.B().Arbitrary("XGROUP", "CREATE").Keys(s.topic).Args(s.group, "0", "MKSTREAM").
		Build()).Error()
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		c.Close()
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.redis = c
	return c, nil
}

// drop gives up the connection. Entries stay this consumer's.
func (s *Source) drop() {
	s.mu.Lock()
	c := s.redis
	s.redis, s.lag = nil, -1
	s.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// look asks how far the group is.
func (s *Source) look(ctx context.Context, c rueidis.Client) error {
	groups, err := c.Do(ctx, c.B().Arbitrary("XINFO", "GROUPS").Keys(s.topic).Build()).ToArray()
	if err != nil {
		return err
	}
	lag := int64(-1)
	for i := range groups {
		g, err := groups[i].AsMap()
		if err != nil {
			return err
		}
		of, name, pending := g["lag"], g["name"], g["pending"]
		if text, err := name.ToString(); err != nil || text != s.group {
			continue
		}
		behind, err := of.AsInt64() // it is nil if Redis does not know, and missing before Redis 7
		if err != nil {
			continue
		}
		taken, err := pending.AsInt64()
		if err != nil {
			return err
		}
		lag = behind + taken
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag, s.looked = lag, time.Now()
	return nil
}

// take makes deliveries of entries.
func (s *Source) take(entries []rueidis.XRangeEntry) (all []*broker.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range entries {
		if s.open[x.ID] != nil {
			continue // it is being handled here
		}
		e := &entry{}
		s.open[x.ID] = e
		all = append(all, s.delivery(x, e))
	}
	return all
}

func (s *Source) delivery(x rueidis.XRangeEntry, e *entry) *broker.Delivery {
	d := &broker.Delivery{At: s.topic + "@" + x.ID,
		Begin: func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return !e.lost
		},
		Done:    func() { s.done(x.ID) },
		Release: func() { s.release(x.ID) }}
	if ms, err := strconv.ParseInt(x.ID[:max(0, strings.IndexByte(x.ID, '-'))], 10, 64); err == nil {
		d.Sent = time.UnixMilli(ms)
	}
	for name, value := range x.FieldValues {
		switch name {
		case "data":
			d.Data = []byte(value)
		case "content-type":
			d.ContentType = value
		default:
			d.Headers = append(d.Headers, broker.Header{Name: name, Value: value})
		}
	}
	return d
}

func (s *Source) done(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acks = append(s.acks, id)
	s.ring()
}

// release lets other consumers take an entry over at once.
func (s *Source) release(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, id)
	s.given = append(s.given, id)
	s.ring()
}

// ring wakes the goroutine that answers.
func (s *Source) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// answer sends acknowledgements and releases, many at a time, and keeps what is being handled from being
// taken over, until Close.
func (s *Source) answer() {
	tick := time.NewTicker(claimEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.wake:
			_ = s.sendAcks() // Receive tries again, and says why it fails
			s.sendReleases()
		case <-tick.C:
			_ = s.sendAcks() // that failed before
			s.claim()
		case <-s.ending:
			return
		}
	}
}

// sendAcks sends the acknowledgements that there are. Those that fail are sent again by the next call.
func (s *Source) sendAcks() error {
	s.mu.Lock()
	c, ids := s.redis, s.acks
	s.acks = nil
	s.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	err := errors.New("there is no connection")
	if c != nil {
		ctx, cancel := context.WithTimeout(context.Background(), askWithin)
		defer cancel()
		err = c.Do(ctx, c.B().Arbitrary("XACK").Keys(s.topic).Args(s.group).Args(ids...).Build()).Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsent = err != nil; err != nil {
		s.acks = append(ids, s.acks...)
		return err
	}
	for _, id := range ids {
		delete(s.open, id)
	}
	return nil
}

// sendReleases makes entries that are released look as if they were left alone for long.
func (s *Source) sendReleases() {
	s.mu.Lock()
	ids := s.given
	s.given = nil
	s.mu.Unlock()
	s.claimAs(ids, leftAlone) // if this fails, they are taken over later, too
}

// claim claims again the entries that are being handled.
func (s *Source) claim() {
	s.mu.Lock()
	ids := make([]string, 0, len(s.open))
	for id := range s.open {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	s.claimAs(ids, 0) // if this fails, another consumer may do them, too: they are done once nevertheless
}

// claimAs claims entries, with how long they were left alone.
func (s *Source) claimAs(ids []string, idle time.Duration) {
	s.mu.Lock()
	c := s.redis
	s.mu.Unlock()
	if c == nil || len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	_ = c.Do(ctx, c.B().Arbitrary("XCLAIM").Keys(s.topic).Args(s.group, s.name, "0").Args(ids...).
		Args("IDLE", millis(idle), "JUSTID").Build()).Error() // see the callers
}

// Lag implements [broker.Source].
func (s *Source) Lag() (n int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.lag), s.lag >= 0
}

// Close implements [broker.Source].
func (s *Source) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errors.New("redis: the source is closed already")
	}
	s.closed = true
	s.mu.Unlock()
	close(s.ending)
	s.working.Wait()
	err := s.sendAcks()
	s.sendReleases()
	err = errors.Join(err, s.leave())
	s.drop()
	return errors.Join(err, s.client.Close())
}

// leaveScript removes a consumer that has no entry: Redis drops those that it has. A read that this source
// has given up may still get some, so Redis looks and removes in one step.
const leaveScript = `
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) == 0 then
  redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
end`

// leave removes the consumer from the group, if it has no entry.
func (s *Source) leave() error {
	s.mu.Lock()
	c, left := s.redis, len(s.acks)
	s.mu.Unlock()
	switch {
	case left > 0:
		return fmt.Errorf("redis: %d acknowledgements did not arrive, their entries come again", left)
	case c == nil:
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	err := c.Do(ctx, c.B().Eval().Script(leaveScript).Numkeys(1).Key(s.topic).Arg(s.group, s.name).
		Build()).Error()
	if rueidis.IsRedisNil(err) {
		return nil // the script returns nothing
	}
	return err
}
