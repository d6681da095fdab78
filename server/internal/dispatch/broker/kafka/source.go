package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// Source takes the records of one topic, as a member of a consumer group.
//
// A record's offset is committed when the record, and all before it in its partition, are acknowledged.
// Commits go out once a second, and when a partition is given up. Before it is, the source waits a moment
// for what is under way. A record that is not acknowledged for long holds up its partition: what is done
// after it is in memory here, comes again if the node dies, and is not remembered for ever.
type Source struct {
	options   Options
	topic     string
	settings  []kgo.Opt
	ahead     time.Duration // see [broker.Subscription]
	mostAhead int

	mu       sync.Mutex
	consumer *kgo.Client // nil before the first Receive
	closed   bool
	parts    map[int32]*part // those that this member has
	settled  chan struct{}   // closed, and made again, when a record of a partition that is given up is done
}

// part is a partition of the topic, for as long as this member has it.
type part struct {
	open []*pending // in order of their offsets, the first not acknowledged
	lost bool
	held bool  // it is not fetched, as its first record has not been acknowledged for long
	high int64 // the high watermark as of the last fetch
	next int64 // the offset after the last record that was received
}

// pending is a record that was received.
type pending struct {
	record *kgo.Record // when it is done, without what was in it
	at     time.Time   // when it was received
	busy   bool        // it is being handled
	done   bool
}

const (
	commitEvery  = time.Second
	fetchMost    = 8 << 20 // bytes of one fetch from one broker, and of what franz-go buffers
	pollMost     = 500
	lookEvery    = 5 * time.Second // if no record comes
	giveUpWithin = 5 * time.Second // how long a partition that is given up is kept for what is under way
	closeWithin  = 5 * time.Second
)

// NewSource makes a source, which connects at the first Receive.
func NewSource(o Options, s broker.Subscription) (*Source, error) {
	if err := o.fill(); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	r := &Source{options: o, topic: s.Topic, ahead: s.Ahead, mostAhead: s.MostAhead, parts: map[int32]*part{},
		settled: make(chan struct{})}
	login, err := o.login()
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	r.settings = append(o.connection(login, dial),
		kgo.ConsumerGroup(s.Group), kgo.ConsumeTopics(s.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.AutoCommitMarks(), kgo.AutoCommitInterval(commitEvery),
		kgo.FetchMaxBytes(fetchMost), kgo.FetchMaxPartitionBytes(fetchMost),
		kgo.OnPartitionsAssigned(r.assigned), kgo.OnPartitionsRevoked(r.revoked), kgo.OnPartitionsLost(r.lost))
	if err := kgo.ValidateOpts(r.settings...); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return r, nil
}

// current is franz-go's client, which joins the group.
func (s *Source) current() (*kgo.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("kafka: the source is closed")
	}
	if s.consumer == nil {
		c, err := kgo.NewClient(s.settings...)
		if err != nil {
			return nil, fmt.Errorf("kafka: %w", err)
		}
		s.consumer = c
	}
	return s.consumer, nil
}

// Receive implements [broker.Source].
func (s *Source) Receive(ctx context.Context) ([]*broker.Delivery, error) {
	c, err := s.current()
	if err != nil {
		return nil, err
	}
	s.hold(c)
	within, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	fetches := c.PollRecords(within, pollMost)
	if all := s.take(fetches); len(all) > 0 {
		return all, nil // an error that is there, too, comes again
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case within.Err() == nil:
		err = fetches.Err()
	default:
		err = s.look(ctx, c)
	}
	if err != nil {
		return nil, fmt.Errorf("kafka: topic %q: %w", s.topic, err)
	}
	return nil, nil
}

// look asks whether the topic is there: franz-go waits for brokers and topics without saying so.
func (s *Source) look(ctx context.Context, c *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.SendWithin)
	defer cancel()
	r := kmsg.NewPtrMetadataRequest()
	of := kmsg.NewMetadataRequestTopic()
	of.Topic = &s.topic
	r.Topics = append(r.Topics, of)
	answer, err := r.RequestWith(ctx, c)
	if err != nil {
		return err
	}
	for _, t := range answer.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}

// hold has no more fetched of partitions whose first record has not been acknowledged for long.
func (s *Source) hold(c *kgo.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for n, p := range s.parts {
		if !p.held && (s.late(p, now) || s.mostAhead > 0 && len(p.open) > s.mostAhead) {
			p.held = true
			c.PauseFetchPartitions(s.alone(n))
		}
	}
}

func (s *Source) late(p *part, now time.Time) bool {
	return s.ahead > 0 && len(p.open) > 0 && now.Sub(p.open[0].at) > s.ahead
}

func (s *Source) alone(n int32) map[string][]int32 { return map[string][]int32{s.topic: {n}} }

// take makes deliveries of what was fetched.
func (s *Source) take(fetches kgo.Fetches) (all []*broker.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		p := s.parts[f.Partition]
		if p == nil {
			return // it was given up since
		}
		p.high = max(p.high, f.HighWatermark)
		for _, r := range f.Records {
			e := &pending{record: r, at: now}
			p.open = append(p.open, e)
			p.next = r.Offset + 1
			all = append(all, s.delivery(p, e))
		}
	})
	return all
}

func (s *Source) delivery(p *part, e *pending) *broker.Delivery {
	r := e.record
	d := &broker.Delivery{At: place(r), Key: string(r.Key),
		Data: r.Value, Sent: r.Timestamp,
		Begin:   func() bool { return s.begin(p, e) },
		Done:    func() { s.done(p, e) },
		Release: func() { s.release(p, e) }}
	for _, h := range r.Headers {
		name := strings.ToLower(h.Key)
		if name == contentType {
			d.ContentType = string(h.Value)
			continue
		}
		if attribute, is := strings.CutPrefix(name, bindingPrefix); is {
			name = neutralPrefix + attribute
		} else {
			name = h.Key
		}
		d.Headers = append(d.Headers, broker.Header{Name: name, Value: string(h.Value)})
	}
	return d
}

// place is where a record is, for people.
func place(r *kgo.Record) string {
	return r.Topic + "/" + strconv.Itoa(int(r.Partition)) + "@" + strconv.FormatInt(r.Offset, 10)
}

func (s *Source) begin(p *part, e *pending) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.lost {
		return false
	}
	e.busy = true
	return true
}

func (s *Source) release(p *part, e *pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(p, e)
}

// settle notes that a record is not being handled any more.
func (s *Source) settle(p *part, e *pending) {
	if e.busy = false; p.lost {
		close(s.settled)
		s.settled = make(chan struct{})
	}
}

// done acknowledges a record. The offset to commit is that of the last one before which all are.
func (s *Source) done(p *part, e *pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.done = true
	e.record.Key, e.record.Value, e.record.Headers = nil, nil, nil
	var last *kgo.Record
	for len(p.open) > 0 && p.open[0].done {
		last = p.open[0].record
		p.open[0] = nil
		p.open = p.open[1:]
	}
	if last != nil && s.parts[last.Partition] == p { // else its offsets are somebody else's
		s.consumer.MarkCommitRecords(last)
		if p.held && !s.late(p, time.Now()) && (s.mostAhead == 0 || len(p.open) <= s.mostAhead/2) {
			p.held = false
			s.consumer.ResumeFetchPartitions(s.alone(last.Partition))
		}
	}
	s.settle(p, e)
}

func (s *Source) assigned(_ context.Context, c *kgo.Client, topics map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ResumeFetchPartitions(map[string][]int32{s.topic: topics[s.topic]}) // they may have been held before
	for _, n := range topics[s.topic] {
		s.parts[n] = &part{high: -1}
	}
}

// revoked gives partitions up, for another member. What is not begun is left to that one. It is waited for
// what is under way, so that it need not be done there again.
func (s *Source) revoked(ctx context.Context, c *kgo.Client, topics map[string][]int32) {
	s.mu.Lock()
	var leaving []*part
	for _, n := range topics[s.topic] {
		if p := s.parts[n]; p != nil {
			p.lost = true
			leaving = append(leaving, p)
		}
	}
	s.mu.Unlock()
	over := time.NewTimer(giveUpWithin)
	defer over.Stop()
	s.await(ctx, leaving, over.C)
	// If the commit fails, the records come again.
	_ = c.CommitMarkedOffsets(ctx)
	s.forget(topics)
}

// await waits until no record of partitions is under way.
func (s *Source) await(ctx context.Context, of []*part, over <-chan time.Time) {
	for {
		s.mu.Lock()
		busy, settled := false, s.settled
		for _, p := range of {
			busy = busy || slices.ContainsFunc(p.open, func(e *pending) bool { return e.busy })
		}
		s.mu.Unlock()
		if !busy {
			return
		}
		select {
		case <-settled:
		case <-over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// lost notes that partitions are not this member's any more: it was taken for dead.
func (s *Source) lost(_ context.Context, _ *kgo.Client, topics map[string][]int32) { s.forget(topics) }

func (s *Source) forget(topics map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range topics[s.topic] {
		if p := s.parts[n]; p != nil {
			p.lost = true
			delete(s.parts, n)
		}
	}
}

// Lag implements [broker.Source].
func (s *Source) Lag() (n int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		if p.high < 0 {
			continue // nothing was fetched yet
		}
		ok = true
		n += int64(len(p.open)) + max(0, p.high-p.next)
	}
	return n, ok || len(s.parts) == 0 && s.consumer != nil
}

// Close implements [broker.Source].
func (s *Source) Close() error {
	s.mu.Lock()
	c := s.consumer
	if s.closed {
		s.mu.Unlock()
		return errors.New("kafka: the source is closed already")
	}
	s.closed = true
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	var err error
	if len(c.MarkedOffsets()) > 0 {
		err = c.CommitMarkedOffsets(ctx)
	}
	err = errors.Join(err, c.LeaveGroupContext(ctx))
	c.Close()
	if err != nil {
		return fmt.Errorf("kafka: the last offsets of topic %q could not be committed, their messages come again: %w",
			s.topic, err)
	}
	return nil
}
