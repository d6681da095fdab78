package object

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/contents"
	"github.com/carillonhq/carillon/server/store/inuse"
	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// replica is what a partition holds, in memory, as it was before some place in the logs.
type replica struct {
	s      *Store
	number int
	turn   inuse.Turn              // had while somebody reads on or applies, until that is settled
	is     atomic.Pointer[version] // nil: not known
	hold   atomic.Pointer[hold]    // nil: this process may not write it without asking
	read   atomic.Bool             // since the keeper looked last
	used   atomic.Int64            // when what it holds was read last, by Store.elapsed, or never
	saving atomic.Bool             // batches are at hand from some version on, a snapshot of which is written
}

// hold is the right to write a partition, as long as the journal is not sealed.
type hold struct {
	term  store.Term
	in    *journal
	fresh atomic.Bool  // the version was read to the end since
	until atomic.Int64 // until when nobody else can have claimed the partition, by Store.elapsed
}

// works reports whether a term's writes may go on in a journal.
func (h *hold) works(term store.Term, in *journal) bool {
	return h != nil && h.term == term && h.in == in && !in.sealed.Load()
}

// version is what a partition holds before a place. It is never changed: a batch changes a copy, which takes
// its place when the bucket has the batch. So reads see nothing that is not durable, and wait for nothing
// that is on its way.
type version struct {
	holds *contents.Partition // nil: that is not in memory (spare.go)
	// late are the last batches behind the snapshot, encoded; those before them are kept in the bucket alone.
	// Where holds is nil they are as many as segments.
	late     [][]byte
	at       mark // its log is empty if the partition has none
	snapshot snapshot
	// since is how many bytes of batches there are behind the snapshot, and in how many segments.
	since    int64
	segments int
}

func newReplica(s *Store, number int) *replica {
	r := &replica{s: s, number: number, turn: inuse.NewTurn()}
	r.used.Store(never)
	return r
}

// learn drops the right to write if the root says that it has ended.
func (r *replica) learn(p *partition) {
	h := r.hold.Load()
	if h == nil || p.inForce(h.term) && p.open() == h.in.id || !r.hold.CompareAndSwap(h, nil) {
		return
	}
	if !p.inForce(h.term) {
		r.is.Store(nil) // what is another's is not kept
	}
}

// rest forgets a partition of another process that nobody has read since the last time.
func (r *replica) rest() {
	if !r.read.Swap(false) && r.hold.Load() == nil {
		r.is.Store(nil)
	}
}

// own returns what the partition holds if nobody else can have written it: this process has a lease.
func (r *replica) own() *version {
	h := r.hold.Load()
	if h != nil && h.fresh.Load() && !h.in.sealed.Load() && r.s.elapsed() < h.until.Load() {
		return r.is.Load()
	}
	return nil
}

// view is the root and the ends of logs as they were asked for within one call, whichever partitions it is
// about.
type view struct {
	s *Store

	mu   sync.Mutex
	root *root // nil: not asked for yet
	at   int64 // when it was asked for, or before that, by Store.elapsed
	ends map[string]uint64
}

func (s *Store) view() *view { return &view{s: s, at: s.elapsed(), ends: map[string]uint64{}} }

// known returns the root, and when it was asked for, or before that, by Store.elapsed.
func (w *view) known(ctx context.Context) (r *root, at int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.root == nil {
		w.at = w.s.elapsed()
		if w.root, err = w.s.roots.read(ctx); err != nil {
			return nil, 0, err
		}
	}
	return w.root, w.at, nil
}

// end returns the number behind the last segment of a log that goes on.
func (w *view) end(ctx context.Context, from place) (uint64, error) {
	if j := w.s.journals.of(from.log); j != nil {
		return j.settled.Load(), nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if end, ok := w.ends[from.log]; ok && end >= from.number {
		return end, nil
	}
	end, err := w.s.logs.end(ctx, from)
	if err == nil {
		w.ends[from.log] = end
	}
	return end, err
}

// again forgets what was asked.
func (w *view) again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.root = nil
	clear(w.ends)
}

// current returns what the partition holds, with every batch that was acknowledged before the view was made.
func (r *replica) current(ctx context.Context, w *view) (*contents.Partition, error) {
	r.read.Store(true)
	r.use()
	v := r.own()
	if v != nil && v.holds != nil {
		return v.holds, nil
	}
	if v == nil {
		if _, _, err := w.known(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.s.lighten(ctx); err != nil { // while nothing of this partition is held up
		return nil, err
	}
	if err := r.turn.Take(ctx, r.s.closing); err != nil {
		return nil, err
	}
	defer r.turn.Give()
	var err error
	if v = r.own(); v == nil {
		v, err = r.advance(ctx, w)
	} else if v, err = r.whole(ctx, v); err == nil {
		r.is.Store(v)
	} else if errors.Is(err, errGone) { // the root has named another snapshot, in an answer that was lost
		v, err = r.advance(ctx, w)
	}
	if err != nil {
		return nil, err
	}
	r.use() // to read it may have taken a while
	return v.holds, nil
}

// use notes that what the partition holds is read now.
func (r *replica) use() { r.used.Store(r.s.elapsed()) }

// errGone: a segment that the root names is not there. It was cleaned since the root was read.
var errGone = errors.New("a segment has gone")

// overtaken reports whether a partition of a root is not what this process may write, and has the version of.
// Then the root is older than that right, and what it leads to would lack batches that were acknowledged
// since; or the right has ended.
func (r *replica) overtaken(p *partition) bool {
	h := r.hold.Load()
	return h != nil && h.fresh.Load() && (!p.inForce(h.term) || p.open() != h.in.id)
}

// advance reads on from the version that is known to the end of the logs, or loads it. The caller holds the
// lock.
func (r *replica) advance(ctx context.Context, w *view) (*version, error) {
	for newest := false; ; {
		known, at, err := w.known(ctx)
		if err != nil {
			return nil, err
		}
		p := &known.Partitions[r.number]
		if r.overtaken(p) {
			if !newest {
				w.again()
				newest = true // it is asked for while nobody can get the right to write
				continue
			}
			r.learn(p)
		}
		v, err := r.play(ctx, w, p)
		// Segments are deleted a while after the root does not name them any more. So one that is missing at
		// the end of an old root need not be the end.
		late := r.s.elapsed()-at > int64(r.s.opt.grace/2)
		switch {
		case err == nil && !late:
			r.is.Store(v)
			if h := r.hold.Load(); h != nil && p.inForce(h.term) && p.open() == h.in.id {
				h.fresh.Store(true)
			}
			return v, nil
		case err != nil && !errors.Is(err, errGone):
			return nil, fmt.Errorf("store: bucket: read partition %d: %w", r.number, err)
		}
		w.again()
		next, _, failed := w.known(ctx)
		if failed != nil {
			return nil, failed
		}
		if err != nil && next == known { // the root still names it
			return nil, fmt.Errorf("%w: bucket: read partition %d: %w", store.ErrDamaged, r.number, err)
		}
	}
}

// play makes a version of what the root says.
func (r *replica) play(ctx context.Context, w *view, p *partition) (*version, error) {
	v, first := r.is.Load(), -1
	if v != nil && v.holds != nil {
		for i, s := range p.Spans {
			if v.at.within(s) {
				first = i
			}
		}
	}
	next := version{}
	if first >= 0 {
		next = *v
		next.holds, next.late = v.holds.Copy(), nil
	} else {
		var err error
		if next.holds, err = r.load(ctx, p.Snapshot); err != nil {
			return nil, err
		}
		next.snapshot, first = p.Snapshot, 0
	}
	for i := first; i < len(p.Spans); i++ {
		s := p.Spans[i]
		if i > first || !next.at.within(s) {
			next.at = mark{place{s.Log, s.From}, s.By}
		}
		if err := r.playSpan(ctx, w, &next, s); err != nil {
			return nil, err
		}
	}
	return &next, nil
}

// playSpan does what the segments of a span say, from the version's place on.
func (r *replica) playSpan(ctx context.Context, w *view, v *version, s span) (err error) {
	end := s.To
	if end == 0 {
		if end, err = w.end(ctx, v.at.place); err != nil {
			return err
		}
	}
	for fetched := v.at.number; v.at.number < end; v.at.number++ {
		if v.at.number == fetched {
			fetched = min(end, fetched+chunk)
			if err := r.s.logs.fetch(ctx, v.at.place, fetched); err != nil {
				return err
			}
		}
		g, err := r.s.logs.get(ctx, v.at.place)
		switch {
		case errors.Is(err, bucket.ErrAbsent):
			return fmt.Errorf("%w: %s", errGone, v.at.name())
		case err != nil:
			return err
		}
		for i := range g.parts {
			if g.parts[i].partition != r.number {
				continue
			}
			b, err := codec.DecodeBatch(g.parts[i].batch)
			if err != nil {
				return fmt.Errorf("%s: %w", v.at.name(), err)
			}
			v.holds.Change(b, nil)
			v.since += int64(len(g.parts[i].batch))
			v.segments++
		}
	}
	return nil
}

// trim moves the place from which the partition's log counts as far as it can without a snapshot: nothing was
// written since the last one. It is called in a round that writes the root.
func (r *replica) trim(p *partition) {
	h := r.hold.Load()
	if h == nil || p.open() != h.in.id || !p.inForce(h.term) {
		return
	}
	settled := h.in.settled.Load() // before the version: what comes between is behind it
	v := r.is.Load()
	if !h.fresh.Load() || v == nil || v.segments > 0 || v.snapshot != p.Snapshot ||
		len(p.Spans) == 1 && settled-p.Spans[0].From < trimAfter {
		return
	}
	p.Spans = []span{{Log: h.in.id, By: p.Spans[len(p.Spans)-1].By, From: settled}}
}

// trimAfter is how many segments a partition that has nothing in them may hold up.
const trimAfter = 64

// elapsed is a clock that nobody sets, in nanoseconds.
func (s *Store) elapsed() int64 { return int64(time.Since(s.opened)) }
