package amqp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	network "github.com/carillonhq/carillon/server/internal/testing/link"
)

// through makes options of a client whose connection can be cut.
func (r *rig) through(t *testing.T) (*network.Link, Options) {
	t.Helper()
	k, err := network.Listen(r.Address(), network.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, k.Close()) })
	o := r.options()
	o.Addresses = []string{k.Address()}
	return k, o
}

// until asks again until it is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	for !so() {
		select {
		case <-again.C:
		case <-late.C:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// A broker without memory takes no messages: nothing is sent, and what was sent is answered afterwards.
func testBlocked(t *testing.T, r *rig) {
	queue := r.queue(t, nil)
	c := client(t, r.options())
	want(t, publish(t, c, many("", queue, 1)...), kinds{acknowledged: 1})
	r.Eval(t, `rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}).`)
	early := start(t.Context(), t, c, many("", queue, 100)) // the broker says so to whom sends
	ended, cancel := context.WithCancel(t.Context())
	lost := start(ended, t, c, many("", queue, 1))
	fresh := client(t, r.options()) // whose channel has answered nothing
	first := start(ended, t, fresh, many("", queue, 10))
	blocked := func(c *Client) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.only() != nil && c.only().blocked.Load() != nil
	}
	until(t, "blocked", func() bool { return blocked(c) && blocked(fresh) })
	errs := publish(t, c, many("", queue, 10)...)
	want(t, errs, kinds{unsent: 10})
	says(t, errs[0], "connection.blocked", "memory")
	until(t, "what waits is told", func() bool { return first.called() == 9 })
	cancel()
	if k := count(lost.wait()); k.acknowledged+k.refused > 0 {
		t.Errorf("ctx has ended: %+v", k)
	}
	want(t, first.wait(), kinds{doubtful: 1, unsent: 9})
	r.Eval(t, `rabbit_alarm:clear_alarm({resource_limit, memory, node()}).`)
	if k := count(early.wait()); k.refused+k.doubtful > 0 {
		t.Errorf("after the alarm: %+v", k)
	}
	until(t, "unblocked", func() bool { return !blocked(c) && !blocked(fresh) })
	for _, c := range []*Client{c, fresh} {
		want(t, publish(t, c, many("", queue, 10)...), kinds{acknowledged: 10})
	}
	r.drain(t, queue)
}

// channel.flow is in the protocol; RabbitMQ never sends it, so this takes the place of the library's reader.
func testFlow(t *testing.T, r *rig) {
	queue := r.queue(t, nil)
	c := client(t, r.options())
	want(t, publish(t, c, many("", queue, 1)...), kinds{acknowledged: 1})
	c.mu.Lock()
	flows := c.only().channels[target{"", queue}].flows
	c.mu.Unlock()
	flows <- false
	until(t, "heard", func() bool { return len(flows) == 0 })
	until(t, "paused", func() bool { return publish(t, c, many("", queue, 1)...)[0] != nil })
	errs := publish(t, c, many("", queue, 2)...)
	want(t, errs, kinds{unsent: 2})
	says(t, errs[0], "channel.flow")
	flows <- true
	until(t, "resumed", func() bool { return publish(t, c, many("", queue, 1)...)[0] == nil })
	r.drain(t, queue)
}

// A broker that is away has got nothing; when it comes everything works.
func testAway(t *testing.T, r *rig) {
	queue := r.queue(t, nil)
	k, o := r.through(t)
	k.Cut(network.Broken)
	c := client(t, o)
	errs := publish(t, c, many("", queue, 100)...)
	want(t, errs, kinds{unsent: 100})
	says(t, errs[0], k.Address())
	k.Heal()
	want(t, publish(t, c, many("", queue, 100)...), kinds{acknowledged: 100})
	if n := len(r.drain(t, queue)); n != 100 {
		t.Errorf("%d messages arrived, want 100", n)
	}
	o.Addresses = append([]string{"127.0.0.1:1"}, o.Addresses...)
	want(t, publish(t, client(t, o), many("", queue, 1)...), kinds{acknowledged: 1})
	o.Addresses = []string{"nowhere.invalid:5672"}
	want(t, publish(t, client(t, o), many("", queue, 1)...), kinds{unsent: 1})
	r.drain(t, queue)
}

// The other address is used when the one that is connected breaks or falls silent, to publish and to receive.
func testAddresses(t *testing.T, r *rig) {
	queue := r.queue(t, nil)
	for name, cut := range map[string]network.Fault{"broken": network.Broken, "silent": network.Silent} {
		t.Run(name, func(t *testing.T) {
			ways, o := make([]*network.Link, 2), r.options()
			o.Addresses, o.Heartbeat, o.ConnectTimeout = nil, time.Second, 2*time.Second
			for i := range ways {
				var one Options
				ways[i], one = r.through(t)
				o.Addresses = append(o.Addresses, one.Addresses...)
			}
			c := client(t, o)
			s, err := NewSource(o, broker.Subscription{Topic: queue, InFlight: 10})
			must(t, err)
			t.Cleanup(func() { must(t, s.Close()) })
			for i := range 4 {
				at := i % 2
				for publish(t, c, message("", queue, fmt.Sprint(name, i), 10))[0] != nil { // until one is taken
				}
				for !slices.Contains(takeSome(t, s), fmt.Sprint(name, i)) { // what may be there twice
				}
				if got := [2]int32{c.first.Load(), s.client.first.Load()}; got != [2]int32{int32(at), int32(at)} {
					t.Fatalf("round %d: the addresses in use are %v", i, got)
				}
				ways[1-at].Heal()
				ways[at].Cut(cut)
			}
		})
	}
	r.drain(t, queue)
}

// takeSome receives messages, at least one, and acknowledges them.
func takeSome(t *testing.T, s *Source) (ids []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(ids) == 0 {
		all, err := s.Receive(ctx)
		if ctx.Err() != nil {
			t.Fatalf("nothing is received: %v", err)
		}
		for _, d := range all {
			d.Done()
			ids = append(ids, d.Header("ce-id"))
		}
	}
	return ids
}

// A cut before the broker has a message, or after it has and before it can say so: it may be there.
func testCut(t *testing.T, r *rig) {
	queue := r.queue(t, nil)
	k, o := r.through(t)
	c := client(t, o)
	for _, way := range []network.Way{network.There, network.Back} {
		want(t, publish(t, c, many("", queue, 1)...), kinds{acknowledged: 1})
		r.drain(t, queue)
		k.CutWay(way, network.Broken)
		want(t, publish(t, c, many("", queue, 100)...), kinds{doubtful: 100})
		k.Heal()
		want(t, publish(t, c, many("", queue, 1)...), kinds{acknowledged: 1})
		n := len(r.drain(t, queue)) - 1
		if way == network.There && n != 0 || way == network.Back && n == 0 {
			t.Errorf("way %d: %d of the messages that may be there are", way, n)
		}
	}
}

// Heartbeats notice a broker that says nothing any more, and that nobody has said goodbye.
func testSilence(t *testing.T, r *rig) {
	queue := r.queue(t, nil)
	k, o := r.through(t)
	o.Heartbeat = 2 * time.Second
	c := client(t, o)
	want(t, publish(t, c, many("", queue, 1)...), kinds{acknowledged: 1})
	k.Cut(network.Silent)
	errs := publish(t, c, many("", queue, 10)...)
	want(t, errs, kinds{doubtful: 10})
	says(t, errs[0], "the connection was lost")
	k.Heal()
	want(t, publish(t, c, many("", queue, 10)...), kinds{acknowledged: 10})
	r.drain(t, queue)
}

// large makes messages that fill a socket.
func large(queue string) []broker.Message {
	ms := make([]broker.Message, window)
	for i := range ms {
		ms[i] = message("", queue, fmt.Sprint(i), maxBytes)
	}
	return ms
}

// stuck waits until a write of the client does not end.
func stuck(t *testing.T, c *Client) {
	t.Helper()
	held := 0 // how often in a row: a write that is only slow lets go in between
	until(t, "stuck", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.only() == nil {
			return true // it was, until its end
		}
		w := c.only().wire
		if w.mu.TryLock() {
			w.mu.Unlock()
			held = 0
			return false
		}
		held++
		return held == 100
	})
}

// A socket that takes no more ends with the connection whose heartbeats have ceased, or at its deadline.
func testDeaf(t *testing.T, r *rig) {
	queue := r.queue(t, nil)
	for name, d := range map[string]struct{ heartbeat, write time.Duration }{
		"heartbeats": {2 * time.Second, time.Hour}, "deadline": {maxHeartbeat, time.Second}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, o := r.through(t)
			o.Heartbeat = d.heartbeat
			c := client(t, o)
			c.writeTimeout = d.write
			want(t, publish(t, c, message("", queue, "first", maxBytes)), kinds{acknowledged: 1})
			k.Cut(network.Silent)
			a := start(t.Context(), t, c, large(queue))
			stuck(t, c)
			b := start(t.Context(), t, c, many("", queue, 10))
			if k := count(a.wait()); k.acknowledged+k.refused > 0 || k.unsent == 0 || k.doubtful == 0 {
				t.Errorf("%+v", k)
			}
			want(t, b.wait(), kinds{unsent: 10})
		})
	}
}

// A socket that takes no more holds up neither Publish nor done nor Close, and neither does the library,
// whose locks the stuck write holds.
func testStuck(t *testing.T, r *rig) {
	queue := r.queue(t, nil)
	k, o := r.through(t)
	c := client(t, o)
	big := large(queue)
	want(t, publish(t, c, big[0]), kinds{acknowledged: 1})
	k.Cut(network.Silent)
	ctx, cancel := context.WithCancel(t.Context())
	a := start(ctx, t, c, big)
	stuck(t, c)
	b := start(ctx, t, c, many("", queue, 100)) // behind it
	cancel()
	want(t, b.wait(), kinds{unsent: 100})
	if k := count(a.wait()); k.acknowledged > 0 || k.refused > 0 || k.unsent == 0 || k.doubtful == 0 {
		t.Errorf("the socket is stuck: %+v", k)
	}
	must(t, c.Close())
	r.drain(t, queue)
}

// What is under way when the client is closed may be there; afterwards nothing is sent.
func testClose(t *testing.T, r *rig) {
	queue := r.queue(t, nil)
	k, o := r.through(t)
	c := client(t, o)
	want(t, publish(t, c, many("", queue, 1)...), kinds{acknowledged: 1})
	k.CutWay(network.Back, network.Silent)
	a := start(t.Context(), t, c, many("", queue, 10))
	until(t, "sent", func() bool { return r.depth(t, queue) == 11 })
	must(t, c.Close())
	want(t, a.wait(), kinds{doubtful: 10})
	errs := publish(t, c, many("", queue, 2)...)
	want(t, errs, kinds{unsent: 2})
	says(t, errs[0], "closed")
	r.drain(t, queue)
}

// ledger is what became of the messages that several publishers have published.
type ledger struct {
	mu    sync.Mutex
	errs  map[string]error
	last  error         // of the last message
	whole chan struct{} // has one after a batch that was acknowledged
}

// publish publishes batches to a queue until ctx ends, each message under an id of its own.
func (l *ledger) publish(ctx context.Context, t *testing.T, c *Client, queue, publisher string) {
	for batch := 0; ctx.Err() == nil; batch++ {
		ms := many("", queue, 100)
		for i := range ms {
			ms[i].ID = fmt.Sprintf("%s-%06d-%03d", publisher, batch, i)
		}
		errs := publish(t, c, ms...)
		l.mu.Lock()
		for i, err := range errs {
			l.errs[ms[i].ID], l.last = err, err
		}
		l.mu.Unlock()
		switch k := count(errs); {
		case k.acknowledged == len(ms):
			select {
			case l.whole <- struct{}{}:
			default:
			}
		case k.unsent > 0:
			select { // as the queue of a broker that is away does
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// await waits for a batch that is acknowledged.
func (l *ledger) await(t *testing.T) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-l.whole:
	case <-late.C:
		l.mu.Lock()
		defer l.mu.Unlock()
		t.Fatalf("no batch is acknowledged; the last ended with %v", l.last)
	}
}

// check compares what was said of messages with those that are there.
func (l *ledger) check(t *testing.T, there []string) {
	t.Helper()
	slices.Sort(there)
	if n := len(there); len(slices.Compact(slices.Clone(there))) != n {
		t.Error("a message is there twice, and was published once")
	}
	found := 0 // of those that may be there
	for id, err := range l.errs {
		_, is := slices.BinarySearch(there, id)
		k := count([]error{err})
		switch {
		case k.acknowledged > 0 && !is:
			t.Errorf("%s was acknowledged and is not there", id)
		case is && k.unsent+k.refused > 0:
			t.Errorf("%s is there: %v", id, err)
		case is && k.doubtful > 0:
			found++
		}
	}
	k := count(slices.Collect(maps.Values(l.errs)))
	t.Logf("%d there, %d of them doubtful; %+v", len(there), found, k)
	if k.unsent == 0 || k.doubtful == 0 || k.refused > 0 {
		t.Errorf("%+v: the broker was killed, then away, and refused nothing", k)
	}
}

// The broker is killed and started again while messages are published without a break. What was acknowledged
// is there, once; what is there was acknowledged, or reported as perhaps there.
func testKill(t *testing.T, r *rig) {
	if testing.Short() {
		t.Skip("a restart takes seconds")
	}
	queue := r.queue(t, nil)
	c := client(t, r.options())
	var publishers sync.WaitGroup
	l := &ledger{errs: map[string]error{}, whole: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	defer publishers.Wait()
	defer cancel()
	for _, name := range []string{"a", "b", "c", "d"} {
		publishers.Go(func() { l.publish(ctx, t, c, queue, name) })
	}
	for range 20 {
		l.await(t)
	}
	r.Crash(t)
	select {
	case <-l.whole: // one from before
	default:
	}
	r.Up(t)
	l.await(t)
	cancel()
	publishers.Wait()
	r.begin(t)
	l.check(t, ids(r.drain(t, queue)))
}

// Answers that come after ctx has ended are those of messages that are settled, and of no others.
func testLate(t *testing.T, r *rig) {
	queue := r.queue(t, nil)
	k, o := r.through(t)
	c := client(t, o)
	for _, n := range []int{1, 10, window} {
		errs := publish(t, c, append(many("", queue, 1), many("", "none", 1)...)...)
		want(t, errs, kinds{acknowledged: 1, refused: 1})
		before, sent := r.depth(t, queue), min(n, window-20) // there is less room after what was abandoned
		k.CutWay(network.Back, network.Silent)
		ctx, cancel := context.WithCancel(t.Context())
		a := start(ctx, t, c, append(many("", queue, n), many("", "none", n)...))
		until(t, "there", func() bool { return r.depth(t, queue) >= before+sent })
		cancel()
		if k := count(a.wait()); k.acknowledged+k.refused > 0 || k.doubtful < sent {
			t.Errorf("%d: %+v", n, k)
		}
		again := start(t.Context(), t, c, append(many("", queue, 10), many("", "none", 10)...))
		k.Heal()
		want(t, again.wait(), kinds{acknowledged: 10, refused: 10})
	}
	r.drain(t, queue)
}

// The broker closes a channel because of a message that is settled already, and never hears of the next: that
// is not blamed.
func testBlame(t *testing.T, r *rig) {
	queue := r.queue(t, nil)
	k, o := r.through(t)
	c := client(t, o)
	want(t, publish(t, c, many("", queue, 1)...), kinds{acknowledged: 1})
	c.mu.Lock()
	own := c.only().channels[target{"", queue}]
	c.mu.Unlock()
	ch := own.ch
	k.CutWay(network.Back, network.Silent)
	ctx, cancel := context.WithCancel(t.Context())
	a := start(ctx, t, c, []broker.Message{message("", queue, "too large", maxBytes+1)})
	until(t, "the second is sent", func() bool { return ch.GetNextPublishSeqNo() == 3 })
	cancel()
	want(t, a.wait(), kinds{doubtful: 1})
	until(t, "nobody waits for an answer", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return own.idle
	})
	b := start(t.Context(), t, c, many("", queue, 1))
	until(t, "the third is sent", func() bool { return ch.GetNextPublishSeqNo() == 4 })
	k.Heal()
	want(t, b.wait(), kinds{doubtful: 1})
	want(t, publish(t, c, many("", queue, 1)...), kinds{acknowledged: 1})
	if n := len(r.drain(t, queue)); n != 2 {
		t.Errorf("%d messages are there, want 2", n)
	}
}
