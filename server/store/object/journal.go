package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// journal is a log of this process. Groups that wait at the same time are one segment; the next segment is
// begun when it is known what became of the one before.
//
//	write ──┐
//	write ──┼─▶ waiting ─▶ run: one segment ─▶ Create ──▶ settles all
//	write ──┘   meanwhile others gather          │ no answer: look, and try again
type journal struct {
	s  *Store
	id string
	// settled is the number of the next segment: those before it are durable.
	settled atomic.Uint64
	sealed  atomic.Bool // nothing can be written any more
	wake    chan struct{}
	ended   chan struct{}

	mu      sync.Mutex
	waiting []*group
	over    error // why nothing is taken any more: errSealed, or the store is closed
}

// group is some batches that are written together or not at all.
type group struct {
	parts []part
	size  int
	// settle is called once, with the place behind the segment, or an error if the group was certainly not
	// written, then give, which gives back the locks: who has one of them may read the log, and must find what
	// the version had. Then done gets the same error, which may be later than anybody waits for it.
	settle func(next place, err error)
	give   func()
	done   chan error
}

// errSealed: the log was sealed before the group was written.
var errSealed = errors.New("store: bucket: the log was sealed")

const (
	// firstPause and longestPause are how long a write without an answer waits before it is sent again.
	firstPause   = 20 * time.Millisecond
	longestPause = 2 * time.Second
)

func newJournal(s *Store) *journal {
	id := strconv.FormatInt(s.opt.Now().Unix(), 36) + "-" + strconv.FormatUint(rand.Uint64(), 36)
	j := &journal{s: s, id: id, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	j.settled.Store(1)
	go j.run()
	return j
}

// write writes a group, and waits until it is known what became of it, or for as long as an answer may take.
func (j *journal) write(g *group) error {
	g.done = make(chan error, 1)
	j.mu.Lock()
	if over := j.over; over != nil {
		j.mu.Unlock()
		g.settle(place{}, over)
		g.give()
		return over
	}
	j.waiting = append(j.waiting, g)
	j.mu.Unlock()
	j.ring()
	patience := time.NewTimer(j.s.opt.Timeout)
	defer patience.Stop()
	select {
	case err := <-g.done:
		return err
	case <-patience.C:
	}
	unknown := fmt.Errorf("%w: bucket: no answer to a write for %v", store.ErrUnknown, j.s.opt.Timeout)
	j.s.health.Note(unknown) // before anybody acts on it
	return unknown
}

// ring has the journal look at what there is to do.
func (j *journal) ring() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// end has nothing more taken, and returns what was not written.
func (j *journal) end(why error) (left []*group) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.over = why
	left, j.waiting = j.waiting, nil
	return left
}

// seal notes that the log was sealed, and has the journal end.
func (j *journal) seal() {
	j.sealed.Store(true)
	j.ring()
}

// close ends the journal. There must be no caller any more; what is not settled stays unknown.
func (j *journal) close() {
	_ = j.end(store.ErrClosed) // nobody waits any more
	j.ring()
	<-j.ended
}

// run writes one segment after the other, until the log is sealed or the store is closed.
func (j *journal) run() {
	defer close(j.ended)
	var last time.Time
	for range j.wake {
		for {
			if wait := time.Until(last.Add(j.s.opt.Every)); wait > 0 && j.await(wait) {
				return
			}
			if j.sealed.Load() {
				j.refuse(j.end(errSealed), errSealed)
				return
			}
			all, over := j.take()
			if over {
				return
			}
			if len(all) == 0 {
				break
			}
			last = time.Now()
			if !j.segment(all) {
				return
			}
		}
	}
}

// await waits for so long, or until the store is closed, which it reports.
func (j *journal) await(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return false
	case <-j.s.ending:
		return true
	}
}

// mostBytes is how large a segment is, unless a single group is larger.
const mostBytes = 8 << 20

// take returns what is to be written next.
func (j *journal) take() (all []*group, over bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	size, n := 0, 0
	for ; n < len(j.waiting) && (n == 0 || size+j.waiting[n].size <= mostBytes); n++ {
		size += j.waiting[n].size
	}
	all, j.waiting = j.waiting[:n:n], j.waiting[n:]
	return all, j.over != nil
}

// segment writes groups as the next segment, and settles them. It reports whether it knows what became of
// them.
func (j *journal) segment(all []*group) bool {
	at := place{j.id, j.settled.Load()}
	var parts []part
	for _, g := range all {
		parts = append(parts, g.parts...)
	}
	written, known := j.put(at, encodeSegment(at, parts))
	switch {
	case !known:
		return false
	case !written:
		j.seal()
		j.refuse(all, errSealed)
	default:
		next := place{j.id, at.number + 1}
		for _, g := range all {
			g.settle(next, nil)
		}
		j.settled.Store(next.number) // not before the versions know of it: see replica.trim
		for _, g := range all {
			g.give()
			g.done <- nil
		}
	}
	return true
}

// refuse tells groups that they were not written.
func (j *journal) refuse(all []*group, err error) {
	for _, g := range all {
		g.settle(place{}, err)
		g.give()
		g.done <- err
	}
}

// put creates a segment and tries until it is known whether it is there, also when its callers wait no
// longer: nobody else writes to this log but seals. known is false if the store is closed before.
func (j *journal) put(at place, data []byte) (written, known bool) {
	name := at.name()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		ctx, cancel := context.WithTimeout(context.Background(), j.s.opt.Timeout)
		_, err := j.s.bucket.Create(ctx, j.s.name(name), data)
		if errors.Is(err, bucket.ErrExists) {
			var found bucket.Object
			if found, err = j.s.get(ctx, name, ""); err == nil {
				cancel()
				return bytes.Equal(found.Data, data), true
			}
		}
		cancel()
		if err == nil {
			j.s.health.Note(nil)
			return true, true
		}
		j.s.health.Note(fmt.Errorf("%w: bucket: write %s: %w", store.ErrUnknown, name, err))
		if j.await(pause) {
			return false, false
		}
	}
}

// journals are the logs that this process has written: the last of them goes on, or none.
type journals struct {
	s *Store

	mu  sync.Mutex
	all map[string]*journal
	is  *journal
}

// live returns the journal that goes on, and makes one if there is none.
func (js *journals) live() *journal {
	js.mu.Lock()
	defer js.mu.Unlock()
	if js.is == nil || js.is.sealed.Load() {
		js.is = newJournal(js.s)
		js.all[js.is.id] = js.is
	}
	return js.is
}

// of returns the journal of a log; nil if it is not this process's.
func (js *journals) of(log string) *journal {
	js.mu.Lock()
	defer js.mu.Unlock()
	return js.all[log]
}

// forget drops journals that have ended and that nobody needs any more.
func (js *journals) forget(r *root) {
	js.mu.Lock()
	defer js.mu.Unlock()
	maps.DeleteFunc(js.all, func(log string, j *journal) bool {
		_, needed := r.Logs[log]
		return !needed && j != js.is && j.sealed.Load()
	})
}

func (js *journals) close() {
	js.mu.Lock()
	defer js.mu.Unlock()
	for _, j := range js.all {
		j.close()
	}
}
