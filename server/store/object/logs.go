package object

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/carillonhq/carillon/server/store/joined"
	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// name is the name of a segment.
func (at place) name() string { return logPrefix(at.log) + fmt.Sprintf("%012d", at.number) }

// logPrefix is what the names of a log's segments begin with.
func logPrefix(log string) string { return "logs/" + log + "/" }

// logs reads logs, and seals them.
type logs struct {
	s     *Store
	reads singleflight.Group // of segments that are not at hand

	mu    sync.Mutex
	ends  map[string]*logEnd
	kept  map[place]*list.Element // of recent, whose values are *segment
	order *list.List              // the one that was used last first
	size  int
	// retired are calls of ends that nobody asks for any more.
	retired []*joined.Call[uint64]
}

// segment is one that was read.
type segment struct {
	at     place
	parts  []part
	sealed bool
	size   int
}

// mostKept is how many bytes of segments stay in memory: who loads many partitions reads each segment once.
const mostKept = 32 << 20

func newLogs(s *Store) *logs {
	return &logs{s: s, ends: map[string]*logEnd{}, kept: map[place]*list.Element{}, order: list.New()}
}

// get returns a segment; [bucket.ErrAbsent] if there is none.
func (l *logs) get(ctx context.Context, at place) (*segment, error) {
	if g := l.atHand(at); g != nil {
		return g, nil
	}
	// Who loads several partitions of a log wants the same segments.
	got := l.reads.DoChan(at.name(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.s.opt.Timeout)
		defer cancel()
		return l.read(ctx, at)
	})
	select {
	case r := <-got:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*segment), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// atHand returns a segment that was read lately; nil if it was not.
func (l *logs) atHand(at place) *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.kept[at]
	if e == nil {
		return nil
	}
	l.order.MoveToFront(e)
	return e.Value.(*segment)
}

// read asks the bucket for a segment.
func (l *logs) read(ctx context.Context, at place) (*segment, error) {
	o, err := l.s.get(ctx, at.name(), "")
	if err != nil {
		return nil, err
	}
	parts, sealed, err := decodeSegment(at, o.Data)
	if err != nil {
		return nil, err
	}
	g := &segment{at, parts, sealed, len(o.Data)}
	l.keep(g)
	return g, nil
}

// keep has a segment at hand.
func (l *logs) keep(g *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept[g.at] != nil {
		return
	}
	l.kept[g.at] = l.order.PushFront(g)
	for l.size += g.size; l.size > mostKept && l.order.Len() > 1; {
		last := l.order.Remove(l.order.Back()).(*segment)
		delete(l.kept, last.at)
		l.size -= last.size
	}
}

// logEnd follows the end of another process's log, for all who ask at the same time.
type logEnd struct {
	next atomic.Uint64 // those before it were there
	call *joined.Call[uint64]
}

// reach notes that the segments before n were there. They may be deleted by now, so that what was known
// before is no place to look for the end.
func (e *logEnd) reach(n uint64) {
	for {
		old := e.next.Load()
		if n <= old || e.next.CompareAndSwap(old, n) {
			return
		}
	}
}

// end returns the number of the segment that comes next in another process's log, or of its seal: those
// before it, from the given one on, are there.
func (l *logs) end(ctx context.Context, from place) (uint64, error) {
	l.mu.Lock()
	e := l.ends[from.log]
	if e == nil {
		e = &logEnd{}
		e.call = joined.New(func() (uint64, error) { return l.follow(from.log, e) })
		l.ends[from.log] = e
	}
	e.reach(from.number)
	l.mu.Unlock()
	return e.call.Wait(ctx)
}

// follow reads a log to its end.
func (l *logs) follow(log string, e *logEnd) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.s.opt.Timeout)
	defer cancel()
	for n := 0; ; n++ {
		// Whoever reads a segment at the end for another reason may have begun before this call: what is not
		// at hand is asked for here.
		at := place{log, e.next.Load()}
		if n == fewSegments { // there are many: they are listed, to be read at the same time
			if err := l.ahead(ctx, at); err != nil {
				return 0, err
			}
		}
		g := l.atHand(at)
		var err error
		if g == nil {
			g, err = l.read(ctx, at)
		}
		switch {
		case errors.Is(err, bucket.ErrAbsent) && at.number == e.next.Load():
			return at.number, nil
		case errors.Is(err, bucket.ErrAbsent): // somebody knows of later ones
			continue
		case err != nil:
			return 0, err
		case g.sealed:
			return at.number, nil
		}
		e.reach(at.number + 1)
	}
}

const (
	// fewSegments is how many segments of another's log are read one after the other.
	fewSegments = 4
	// atOnceRead is how many are read at the same time when there are more.
	atOnceRead = 16
	// chunk is how many are read before what they say is done.
	chunk = 256
)

// ahead reads what is listed of a log from a place on, so that it is at hand. A list may lack what is new.
func (l *logs) ahead(ctx context.Context, from place) error {
	last, ok, err := l.listed(ctx, from, chunk)
	if err != nil || !ok {
		return err
	}
	return l.fetch(ctx, from, last+1)
}

// listed returns the last of at most limit segments that are listed behind one; ok is false if there is none.
func (l *logs) listed(ctx context.Context, behind place, limit int) (last uint64, ok bool, err error) {
	prefix := l.s.name(logPrefix(behind.log))
	page, err := l.s.bucket.List(ctx, prefix, l.s.name(behind.name()), limit)
	if err != nil || len(page.Entries) == 0 {
		return 0, false, err
	}
	name := page.Entries[len(page.Entries)-1].Name
	if last, err = strconv.ParseUint(name[len(prefix):], 10, 64); err != nil {
		return 0, false, fmt.Errorf("the object %s is not a segment", name)
	}
	return last, true, nil
}

// fetch reads segments that are there, many at the same time, so that they are at hand. One that is missing
// is found missing later.
func (l *logs) fetch(ctx context.Context, from place, to uint64) error {
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(atOnceRead)
	for n := from.number; n < to; n++ {
		calls.Go(func() error {
			if _, err := l.get(ctx, place{from.log, n}); err != nil && !errors.Is(err, bucket.ErrAbsent) {
				return err
			}
			return nil
		})
	}
	return calls.Wait()
}

// forget drops what is known of logs that nobody needs any more.
func (l *logs) forget(r *root) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, e := range l.ends {
		if state, ok := r.Logs[id]; !ok || state.Seal != 0 {
			l.retired = append(l.retired, e.call)
			delete(l.ends, id)
		}
	}
}

// close waits for the calls that are under way. There must be no caller any more.
func (l *logs) close() {
	l.mu.Lock()
	calls := l.retired
	for _, e := range l.ends {
		calls = append(calls, e.call)
	}
	l.mu.Unlock()
	for _, c := range calls {
		c.Close()
	}
}

// seal ends a log that goes on, and notes that in the root: its spans end there. by is the log that its
// partitions go on in.
func (l *logs) seal(ctx context.Context, r *root, log, by string) error {
	at := place{log, max(r.Logs[log].Next, 1)}
	// What is listed only tells where to look: the name of the last segment shortens the way.
	for {
		last, ok, err := l.listed(ctx, at, bucket.MostListed)
		if err != nil {
			return failure(err)
		}
		if !ok {
			break
		}
		at.number = last
	}
	for {
		seal := encodeSeal(at, by)
		_, err := l.s.bucket.Create(ctx, l.s.name(at.name()), seal)
		if errors.Is(err, bucket.ErrExists) {
			var o bucket.Object
			if o, err = l.s.get(ctx, at.name(), ""); err == nil && !isSeal(o.Data) {
				at.number++
				continue
			}
		}
		if err != nil {
			return failure(err)
		}
		if j := l.s.journals.of(log); j != nil {
			j.seal()
		}
		r.sealed(log, at.number)
		return nil
	}
}
