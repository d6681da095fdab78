package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// tail follows the events of all partitions for the watchers of this node. It begins with the first watcher
// and ends with the last one. Of the node's own partitions it gets the records from the lanes, once they are
// durable; it reads only what it has missed. Those of other nodes it reads from the store.
type tail struct {
	w    *watches
	bell bell
	on   atomic.Bool // somebody watches
	ask  bell        // partitions are to be told at once that somebody watches

	mu       sync.Mutex
	watchers int
	whole    int // of them, those for which everything is recorded
	closed   bool
	end      context.CancelFunc
	running  sync.WaitGroup
	inbox    []*durableEvents
	missed   []bool // by partition: something may be in the store that will not come into inbox

	pos    position // of the newest chunk
	first  uint64   // number of chunks[0]
	chunks []*chunk // the newest ones
	events int      // in chunks
	more   chan struct{}
}

// durableEvents is a durable record of events of a partition of this node.
type durableEvents struct {
	partition int
	record    store.MetaRecord
}

// chunk is some of what the tail has read at once. It does not change.
type chunk struct {
	records []recorded
	events  []carillon.Event // of all the records
	pos     position         // after it
	token   string           // of pos
	err     error            // if something is missing: every watcher ends
}

// place is where a watcher goes on: with the chunk of a number, before which everything up to pos has come.
type place struct {
	chunk uint64
	pos   position
}

// Bounds and times of a tail.
const (
	tailEvents  = 20_000                 // in memory, for watchers that are slower than others
	inboxMost   = 4096                   // records
	tailGather  = 50 * time.Millisecond  // the least between two passes
	tailPoll    = 500 * time.Millisecond // how often partitions of other nodes are read
	wantedPoll  = 2 * time.Second        // the same, if only for webhooks
	renewEvery  = time.Minute            // how often partitions are told that somebody watches
	renewAgain  = 5 * time.Second        // the same, if one could not be told
	renewWithin = 10 * time.Second
)

func newTail(w *watches) *tail {
	return &tail{w: w, bell: newBell(), ask: newBell(), more: make(chan struct{}),
		missed: make([]bool, len(w.parts))}
}

// join adds a watcher that begins at a position. It goes on at the place. With whole, everything is
// recorded for it.
func (t *tail) join(from position, whole bool) (place, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return place{}, errStopping()
	case t.watchers >= watchersMost:
		return place{}, carillon.Errorf(carillon.ResourceExhausted, "", "this node has %d watchers, which is the most",
			watchersMost)
	}
	if t.watchers++; t.watchers == 1 {
		t.begin(from)
	}
	if whole {
		if t.whole++; t.whole == 1 {
			t.ask.ring()
		}
	}
	return t.newest(), nil
}

// begin starts the tail at a position.
func (t *tail) begin(from position) {
	var ctx context.Context
	ctx, t.end = context.WithCancel(context.Background())
	t.pos, t.missed = slices.Clone(from), make([]bool, len(from))
	for p := range t.missed {
		t.missed[p] = true
	}
	t.on.Store(true)
	t.bell.ring()
	t.running.Go(func() { t.run(ctx) })
	t.running.Go(func() { t.renew(ctx) })
}

// newest returns the place after the newest chunk.
func (t *tail) newest() place { return place{t.first + uint64(len(t.chunks)), slices.Clone(t.pos)} }

// leave takes a watcher away.
func (t *tail) leave(whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if whole {
		t.whole--
	}
	if t.watchers--; t.watchers > 0 {
		return
	}
	t.on.Store(false)
	t.end()
	t.first += uint64(len(t.chunks)) + 1
	t.inbox, t.chunks, t.events = nil, nil, 0
}

// close ends the tail and waits until it reads nothing any more.
func (t *tail) close() {
	t.mu.Lock()
	t.closed = true
	if t.watchers > 0 {
		t.end()
	}
	t.mu.Unlock()
	t.running.Wait()
}

// durable takes the metadata records of a durable batch of a partition of this node.
func (t *tail) durable(p int, records []store.MetaRecord) {
	if !t.on.Load() {
		return
	}
	for i := range records {
		if records[i].Kind == store.KindEvents && records[i].Value != nil {
			t.put(&durableEvents{p, records[i]})
		}
	}
}

func (t *tail) put(d *durableEvents) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.inbox) < inboxMost {
		t.inbox = append(t.inbox, d)
	} else {
		t.missed[d.partition] = true
	}
	t.bell.ring()
}

// look has the tail read a partition from the store: a term has begun, and what happened before it was not
// said here.
func (t *tail) look(p int) {
	if !t.on.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missed[p] = true
	t.bell.ring()
}

// after returns the chunk at a place, and moves the place behind it. If there is none yet, it returns what is
// closed when there may be. It returns neither if the place has become another one, since the tail no longer
// has the chunk: the watcher must read what is before it.
func (t *tail) after(at *place) (*chunk, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch n := t.first + uint64(len(t.chunks)); {
	case at.chunk < t.first:
		*at = t.newest()
		return nil, nil
	case at.chunk == n:
		return nil, t.more
	}
	c := t.chunks[at.chunk-t.first]
	at.chunk++
	return c, nil
}

// run reads until ctx ends.
func (t *tail) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var polled time.Time
	for {
		select {
		case <-t.bell:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		every := t.pollEvery()
		all := time.Since(polled) >= every
		if all {
			polled = time.Now()
		}
		t.pass(ctx, all)
		timer.Reset(tailGather)
		select { // what happens meanwhile comes at once
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		timer.Reset(max(0, every-time.Since(polled)))
	}
}

func (t *tail) pollEvery() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.whole == 0 {
		return wantedPoll
	}
	return tailPoll
}

// pass makes chunks of what is new. With all, it reads the partitions of other nodes, too.
func (t *tail) pass(ctx context.Context, all bool) {
	pos, missed, pages := t.takeIn(ctx)
	var read []int
	for p, part := range t.w.parts {
		if missed[p] || all && !part.own.holds() {
			read = append(read, p)
		}
	}
	clear(missed)
	errs := make([]error, len(read))
	readOne := func(i int) {
		p := read[i]
		page, err := t.w.recordedAfter(ctx, p, pos[p])
		if len(page) > 0 {
			pages[p], pos[p] = append(pages[p], page...), page[len(page)-1].number
		}
		missed[p], errs[i] = err != nil || len(page) == recordsAtOnce, err
	}
	_ = sideBySide(len(read), func(i int) error {
		readOne(i)
		return nil // the others are read all the same
	})
	var failed error
	for i, p := range read {
		switch err := errs[i]; {
		case errors.Is(err, carillon.FailedPrecondition), errors.Is(err, carillon.DataLoss):
			failed, pos[p] = err, t.beyond(ctx, p, pos[p])
		case err == nil && missed[p]:
			t.bell.ring() // there is more
		}
	}
	t.add(ctx, merged(pages), pos, missed, failed)
}

// takeIn takes what the lanes have told: the records that come next, by partition, and the position after
// them. It takes nothing once ctx has ended: then another watch may have begun, and t is about that.
func (t *tail) takeIn(ctx context.Context) (pos position, missed []bool, pages [][]recorded) {
	t.mu.Lock()
	var inbox []*durableEvents
	pos, missed = slices.Clone(t.pos), make([]bool, len(t.pos))
	if ctx.Err() == nil {
		inbox, t.inbox = t.inbox, nil
		missed, t.missed = t.missed, missed
	}
	t.mu.Unlock()
	pages = make([][]recorded, len(pos))
	for _, d := range inbox {
		n := partition.EventNumber(d.record.Key)
		if n <= pos[d.partition] {
			continue
		}
		r, err := decodeRecorded(d.partition, &d.record)
		if err != nil || n != pos[d.partition]+1 {
			missed[d.partition] = true
			continue
		}
		pages[d.partition], pos[d.partition] = append(pages[d.partition], r), n
	}
	return pos, missed, pages
}

// beyond returns from where a partition can be read whose records after pos are gone or damaged.
func (t *tail) beyond(ctx context.Context, p int, pos uint64) uint64 {
	state, err := t.w.watched(ctx, p)
	if err != nil {
		return pos // it fails again
	}
	return max(pos+1, state.Floor)
}

// add adds chunks of the records, then one of an error if something is missing, and notes the position after
// them. It does nothing once ctx has ended, like takeIn.
func (t *tail) add(ctx context.Context, records []recorded, pos position, missed []bool, failed error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	for len(records) > 0 {
		c := t.chunkOf(records)
		records = records[len(c.records):]
		t.push(c)
	}
	for p := range pos {
		t.pos[p] = max(t.pos[p], pos[p])
		t.missed[p] = t.missed[p] || missed[p]
	}
	if failed != nil {
		t.push(&chunk{err: failed})
	}
}

// chunkOf makes a chunk of the first records, whose events fit into a batch, and moves the position behind
// them.
func (t *tail) chunkOf(records []recorded) *chunk {
	n, events, bytes := 0, 0, 0
	for n < len(records) && (n == 0 || events+len(records[n].events) <= batchEvents && bytes < batchBytes) {
		events += len(records[n].events)
		bytes += eventBytes(records[n].events)
		n++
	}
	c := &chunk{records: records[:n], events: make([]carillon.Event, 0, events)}
	for i := range c.records {
		r := &c.records[i]
		c.events = append(c.events, r.events...)
		t.pos[r.partition] = max(t.pos[r.partition], r.number)
	}
	c.pos = slices.Clone(t.pos)
	c.token = t.w.tokenOf(c.pos)
	return c
}

// push adds a chunk.
func (t *tail) push(c *chunk) {
	t.chunks = append(t.chunks, c)
	for t.events += len(c.events); t.events > tailEvents && len(t.chunks) > 1; t.first++ {
		t.events -= len(t.chunks[0].events)
		t.chunks[0] = nil
		t.chunks = t.chunks[1:]
	}
	close(t.more)
	t.more = make(chan struct{})
}

// renew tells all partitions now and then that somebody watches everything.
func (t *tail) renew(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-t.ask:
		case <-ctx.Done():
			return
		}
		t.mu.Lock()
		whole := t.whole
		t.mu.Unlock()
		if whole == 0 {
			continue // the first one asks
		}
		next := renewEvery
		if err := t.renewAll(ctx); err != nil && ctx.Err() == nil {
			next = renewAgain
			t.w.log.Debug("a partition could not be told that its events are watched", "error", err)
		}
		timer.Reset(next)
	}
}

// renewAll tells all partitions that somebody watches. One that has not recorded everything since, because it
// was not told in time, records that, which ends the watchers.
func (t *tail) renewAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewWithin)
	defer cancel()
	errs := make([]error, len(t.w.parts))
	_ = sideBySide(len(errs), func(p int) error {
		_, errs[p] = across(ctx, t.w.partitions, t.w.parts[p], message.RecordEvents{Again: true})
		return nil // the others are told all the same
	})
	return cmp.Or(errs...)
}
