package cassandra

import (
	"context"
	"errors"
	"fmt"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/contents"
)

var (
	// errGone: the version in memory is no longer a prefix of the log, which is read again from its first
	// segment.
	errGone = errors.New("the log was cleaned, or replaced")
	// errTorn: a segment says that it has a batch, and not all of its rows were found. A replica may have
	// what the others have not got yet.
	errTorn = errors.New("rows of a batch are missing")
)

// mostTears is how often a segment is read again whose rows are missing. Before each, a serial read has
// Cassandra bring what was written last to most replicas. Where that does not help, all replicas are asked:
// some of them may have lost rows.
const (
	mostTears = 8
	askAll    = 4
)

// advance reads on from the version that is known to the end of the log, or loads it. The caller holds the
// lock.
func (r *replica) advance(ctx context.Context) (*version, error) {
	for tears, pause := 0, firstPause; ; pause = min(2*pause, longestPause) {
		known := r.is.Load()
		p := &player{r: r, from: known, level: r.s.wire.levels.regular}
		if tears >= askAll {
			p.level = gocql.All
		}
		next, err := p.play(ctx)
		switch {
		case err == nil:
			r.is.Store(next)
			return next, nil
		case errors.Is(err, errGone) && (known != nil || tears < mostTears):
			r.forget()
			if known != nil {
				continue
			}
		case !errors.Is(err, errTorn) || tears >= mostTears:
			if errors.Is(err, errTorn) || errors.Is(err, errGone) {
				err = r.damaged(p.segment, p.number, err)
			}
			return nil, failure(fmt.Errorf("read partition %d: %w", r.number, err))
		}
		tears++
		if tears == askAll {
			r.forget() // perhaps what is known is so old that its segment has gone
		}
		if _, err := r.readTail(ctx, r.s.wire.levels.serial, p.segment); err != nil {
			return nil, failure(err)
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil, ctx.Err()
		}
	}
}

// player makes a version of a log.
type player struct {
	r     *replica
	from  *version // nil: from the first segment
	level gocql.Consistency

	is      *version
	holds   *contents.Partition
	segment int
	number  int64 // of the rows that come
	rows    []row // of this number
	header  *row  // of this number; nil: it has none
	read    size  // of the segment
}

// play reads the log to its end.
func (p *player) play(ctx context.Context) (*version, error) {
	if err := p.begin(ctx); err != nil {
		return nil, err
	}
	p.is.holds = p.holds
	for p.segment != 0 {
		t, err := p.r.readTail(ctx, p.level, p.segment)
		if err != nil {
			return nil, err
		}
		if !t.exists {
			if len(p.is.segments) == 0 && p.segment == 1 {
				return p.is, nil // it was claimed for the first time, and no more came of it
			}
			return nil, errGone
		}
		if t.dropped() {
			return nil, errGone
		}
		if err := p.playSegment(ctx, &t); err != nil {
			return nil, err
		}
		p.is.term = t.term
		p.r.hint.Store(int64(t.segment))
		p.segment = t.next
	}
	switch {
	case p.from == nil:
		p.is.live = weigh(p.holds)
	case p.is.last != p.from.last:
		p.is.live = unweighed
	}
	return p.is, nil
}

// begin sets where to go on.
func (p *player) begin(ctx context.Context) (err error) {
	if p.from == nil || len(p.from.segments) == 0 {
		p.from = nil
		p.is, p.holds = &version{}, contents.New(p.r.number)
		p.segment, err = p.r.firstOf(ctx)
		return err
	}
	next := *p.from
	next.segments = append([]segment(nil), p.from.segments...)
	p.is, p.holds, p.segment = &next, p.from.holds.Copy(), p.from.tail().number
	return nil
}

// playSegment reads a segment: from the last batch that is known, if it is where that was.
func (p *player) playSegment(ctx context.Context, t *tail) error {
	known := len(p.is.segments) > 0
	goesOn := known && p.is.tail().number == t.segment
	from := int64(0)
	switch {
	case goesOn && (t.last < p.is.last || p.is.id == 0 && p.is.last > t.start):
		return errGone
	case goesOn:
		if p.is.last > t.start {
			from = p.is.last // to see whether it is the one that is known
		}
	case known && t.start != p.is.last:
		return errGone
	default:
		p.is.last, p.is.id, p.is.used = t.start, 0, t.start
		p.is.segments = append(p.is.segments, segment{number: t.segment})
	}
	p.number, p.rows, p.header, p.read = 0, p.rows[:0], nil, size{}
	mark := *p.is
	restart := func() {
		*p.is, p.number, p.rows, p.header, p.read = mark, 0, p.rows[:0], nil, size{}
	}
	err := p.r.s.wire.each(ctx, p.level, selectRows(p.r.number, t.segment, from), restart,
		func(scan func(...any) error) error {
			w, err := scanRow(scan)
			if err != nil {
				return p.r.damaged(t.segment, w.number, err)
			}
			return p.take(&w, t)
		})
	if err == nil {
		err = p.end(t)
	}
	if err != nil {
		return err
	}
	if p.is.last != t.last {
		p.number = t.last
		return errTorn
	}
	s := &p.is.segments[len(p.is.segments)-1]
	s.size = s.size.plus(p.read)
	return nil
}

// take notes a row. The rows of a number come in their order; those behind the last batch are not of one, or
// have come since.
func (p *player) take(w *row, t *tail) error {
	if w.number != p.number {
		if err := p.end(t); err != nil {
			return err
		}
		p.number, p.rows, p.header = w.number, p.rows[:0], nil
	}
	p.is.used = max(p.is.used, w.number)
	if w.item == 0 {
		header := *w
		p.header = &header
		return nil
	}
	p.rows = append(p.rows, *w)
	return nil
}

// end does what the rows of a number say, if they are a batch.
func (p *player) end(t *tail) error {
	h := p.header
	if h == nil || h.number > t.last {
		return nil
	}
	if h.number == p.is.last && p.is.id != 0 {
		if h.seq != p.is.id { // another batch has this number in the log that there is now
			return errGone
		}
		return nil
	}
	if h.number <= p.is.last {
		return nil // it was read before the rows were read again
	}
	if h.before != p.is.last || h.items != len(p.rows) {
		return errTorn
	}
	var c changes
	for i := range p.rows {
		if err := c.add(&p.rows[i]); err != nil {
			return p.r.damaged(t.segment, h.number, err)
		}
		p.read = p.read.plus(p.rows[i].size())
	}
	p.read.rows++
	p.read.bytes += rowOverhead
	p.holds.Remove(c.goneRuns)
	p.holds.Change(&c.Batch, nil)
	p.is.last, p.is.id = h.number, h.seq
	return nil
}

// unweighed is the size of what a partition holds that has been read on, until somebody wants to know it.
var unweighed = size{-1, -1}

// Sizes in the log of what a partition holds, about.
func weighRecord(r *store.Record) size { return size{1, 2*rowOverhead + len(r.Spec)} }

func weighRun(r *store.RunRecord) size {
	return size{1, 2*rowOverhead + len(r.Response) + len(r.Spec)}
}

func weigh(p *contents.Partition) (sum size) {
	for r := range p.Records() {
		sum = sum.plus(weighRecord(r))
	}
	for r := range p.AllRuns() {
		sum = sum.plus(weighRun(r))
	}
	for m := range p.AllMetaRecords() {
		sum = sum.plus(size{1, rowOverhead + len(m.Value)})
	}
	return sum
}
