package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/reconnect"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/message"
)

// seeThrough is how long an ingest that ends waits for what is under way.
const seeThrough = callWithin

// mostAhead is how many messages are taken after one that is not done, at least; see [broker.Subscription].
const mostAhead = 10_000

// queueShare is the part of the places under way that the messages may have that follow one of the same job.
const queueShare = 4

// topic is one of an ingest's.
type topic struct {
	name      string
	place     int // from 0, the earliest
	source    broker.Source
	outage    outage
	connected atomic.Bool // the last attempt to receive has not failed
	tally     tally
	held      held
}

// Ingest is one that runs.
type Ingest struct {
	config  Config
	since   time.Time // when it began
	o       Options
	topics  []*topic
	letters broker.Client
	slots   *slots
	stop    context.CancelFunc // no message is begun any more
	cut     context.CancelFunc // ends what is under way
	running sync.WaitGroup     // a goroutine of each topic, and of each group or message under way

	deadLetters outage
	retries     retries
	limit       limit

	mu    sync.Mutex
	names map[carillon.Key][]*item // of what is under way, each with those that follow
	// shorter is closed, and made again, when fewer messages follow one.
	shorter chan struct{}
}

// Start starts an ingest. It connects by itself.
func Start(c Config, o Options) (*Ingest, error) {
	g := &Ingest{config: c, o: o, slots: newSlots(c.InFlight, len(c.Topics)), names: map[carillon.Key][]*item{},
		since: time.Now().UTC(), shorter: make(chan struct{})}
	o.Log = o.Log.With("ingest", c.Name, "broker", c.Broker)
	g.o.Log = o.Log
	kind := c.Settings.Kind
	if o.Sources[kind] == nil || o.Clients[kind] == nil {
		return nil, fmt.Errorf("broker: messages of kind %s cannot be taken yet", kind)
	}
	var err error
	untrimmed := c.Settings
	untrimmed.MaxLength = 0 // no dead letter is removed for a newer one
	if g.letters, err = o.Clients[kind](untrimmed); err != nil {
		return nil, err
	}
	for i, name := range c.Topics {
		source, err := o.Sources[kind](c.Settings, broker.Subscription{Topic: name, Group: c.Group,
			InFlight: c.InFlight, Ahead: c.Remember / 2, MostAhead: max(mostAhead, 2*c.InFlight)})
		if err != nil {
			return nil, errors.Join(err, g.end())
		}
		t := &topic{name: name, place: i, source: source}
		t.outage = outage{log: o.Log.With("topic", name), away: "messages cannot be taken at present",
			back: "messages are taken again"}
		g.topics = append(g.topics, t)
	}
	g.deadLetters = outage{log: o.Log, away: "the dead-letter topic does not take a message; it is tried again",
		back: "the dead-letter topic takes messages again"}
	g.retries.log = o.Log
	calls, cut := context.WithCancel(message.WithGiver(context.Background(), "ingest "+g.config.Name))
	ctx, stop := context.WithCancel(calls)
	g.stop, g.cut = stop, cut
	for _, t := range g.topics {
		g.running.Go(func() { g.receive(ctx, calls, t) })
	}
	return g, nil
}

// Close ends the ingest: what is under way is waited for, for a time or until ctx ends, and all
// acknowledgements are sent.
func (g *Ingest) Close(ctx context.Context) {
	g.stop()
	ctx, cancel := context.WithTimeout(ctx, seeThrough)
	defer cancel()
	over := context.AfterFunc(ctx, g.cut)
	g.running.Wait()
	over()
	g.cut()
	if err := g.end(); err != nil {
		g.o.Log.Warn("an ingest has not ended in order", "error", err)
	}
}

func (g *Ingest) end() error {
	errs := make([]error, len(g.topics)+1)
	var closing sync.WaitGroup
	for i, t := range g.topics {
		closing.Go(func() { errs[i] = t.source.Close() })
	}
	closing.Go(func() { errs[len(g.topics)] = g.letters.Close() })
	closing.Wait()
	return errors.Join(errs...)
}

// receive takes the messages of a topic until ctx ends; calls is for what is begun.
func (g *Ingest) receive(ctx, calls context.Context, t *topic) {
	var pause reconnect.Backoff
	for {
		all, err := t.source.Receive(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t.connected.Store(false)
			t.outage.fails(err)
			if pause = pause.Next(); pause.Wait(ctx) != nil {
				return
			}
			continue
		}
		pause = 0
		t.connected.Store(true)
		t.outage.ends()
		if len(all) > 0 {
			t.tally.last.Store(time.Now().UnixNano())
			t.tally.inFlight.Add(int64(len(all)))
		}
		groups := groups{g: g, of: map[int]*group{}}
		for i, d := range all {
			it := g.newItem(t, d)
			if !g.room(ctx, calls, it, &groups) || !g.slot(ctx, calls, t, &groups) {
				for _, d := range all[i:] {
					d.Release()
				}
				t.tally.inFlight.Add(-int64(len(all) - i))
				break // ctx has ended
			}
			g.admit(ctx, calls, it, &groups)
		}
		groups.begin(ctx, calls)
	}
}

// slot takes a place under way for a message of a topic. What waits in groups is begun before it waits for
// one. It returns false if ctx has ended.
func (g *Ingest) slot(ctx, calls context.Context, t *topic, groups *groups) bool {
	if ctx.Err() != nil {
		return false
	}
	if g.slots.takeFree() {
		return true
	}
	groups.begin(ctx, calls)
	return g.slots.take(ctx, t.place) == nil
}

// room waits until fewer messages than may follow that of its name: those of one job do not take all slots.
// What waits in groups is begun before. It returns false if ctx has ended.
func (g *Ingest) room(ctx, calls context.Context, it *item, groups *groups) bool {
	for it.fault == nil {
		g.mu.Lock()
		shorter, full := g.shorter, len(g.names[it.order]) >= max(1, g.config.InFlight/queueShare)
		g.mu.Unlock()
		if !full {
			return true
		}
		groups.begin(ctx, calls)
		select {
		case <-shorter:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// admit adds a message to its group, or starts it alone, or has it follow those of its name.
func (g *Ingest) admit(ctx, calls context.Context, it *item, groups *groups) {
	if it.fault == nil {
		g.mu.Lock()
		queue, busy := g.names[it.order]
		if busy {
			g.names[it.order] = append(queue, it)
		} else {
			g.names[it.order] = nil
		}
		g.mu.Unlock()
		if busy {
			return
		}
		if it.cmd.Complete == nil {
			groups.add(ctx, calls, it)
			return
		}
	}
	g.running.Go(func() { g.follow(ctx, calls, it) })
}

// follow handles a message, and those that follow it, one after the other.
func (g *Ingest) follow(ctx, calls context.Context, it *item) {
	for it != nil {
		g.handle(ctx, calls, it)
		it = g.over(it)
	}
}

// over gives the place of a message back, and returns the one that follows it.
func (g *Ingest) over(it *item) *item {
	g.slots.give()
	it.topic.tally.inFlight.Add(-1)
	if it.fault != nil {
		return nil // nothing follows it
	}
	return g.next(it.order)
}

// next returns the message that follows the one of a name that has ended.
func (g *Ingest) next(order carillon.Key) *item {
	g.mu.Lock()
	defer g.mu.Unlock()
	queue := g.names[order]
	if len(queue) == 0 {
		delete(g.names, order)
		return nil
	}
	g.names[order] = queue[1:]
	close(g.shorter)
	g.shorter = make(chan struct{})
	return queue[0]
}

// TopicStats is how a topic of an ingest stands.
type TopicStats struct {
	Ingest, Topic string
	Connected     bool
	Lag           int64 // -1: unknown
}

// Stats returns how the topics stand.
func (g *Ingest) Stats() []TopicStats {
	all := make([]TopicStats, len(g.topics))
	for i, t := range g.topics {
		lag, known := t.source.Lag()
		if !known {
			lag = -1
		}
		all[i] = TopicStats{Ingest: g.config.Name, Topic: t.name, Lag: lag, Connected: t.connected.Load()}
	}
	return all
}
