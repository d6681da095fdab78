package transfer

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// A journal is what a store held and holds, from a moment on, in segments. Each ends with a point: what the
// store held at one moment. A base begins with everything that it held; a segment after it has what came
// between two points.
//
//	base: contents, changes ─ point │ changes ─ point │ changes ─ point │ base: contents, changes ─ point …
//
// A segment is compressed by gzip, and made of the frames of a backup (file.go), of these kinds:
//
//	H  JSON: segmentHead
//	C  2 bytes for the partition, and a batch of its contents
//	L  the same, of a change
//	W  2 bytes: all contents of the partition have come
//	A  2 bytes: what has come of the partition is void; its contents come again
//	P  JSON: Point; nothing follows
const (
	frameContents = 'C'
	frameChange   = 'L'
	frameWhole    = 'W'
	frameAgain    = 'A'
	framePoint    = 'P'

	segmentMagic   = "carillon journal"
	segmentVersion = 1
)

// segmentHead is how a segment begins.
type segmentHead struct {
	Magic   string `json:"magic"`
	Version int    `json:"version"`
	Number  int    `json:"number"`
	Base    bool   `json:"base"`
	Head
}

// Point is how a segment ends.
type Point struct {
	Number int       `json:"number"` // of the segment
	Base   bool      `json:"base"`   // everything is in the segment
	Time   time.Time `json:"time"`   // of the moment, by the clock of the command
	Epoch  uint64    `json:"epoch"`  // no term had a greater one
	Frames int64     `json:"frames"` // of the segment
}

// PointTime is how the time of a point is shown: so it can be given to restore.
const PointTime = "2006-01-02T15:04:05.000Z"

// journal is a sink that writes segments.
type journal struct {
	to   Segments
	head Head
	base int // the number of the segment that the others follow

	mu  sync.Mutex
	now *segmentWriter
}

// segmentWriter writes one segment.
type segmentWriter struct {
	to     Segment
	packed *gzip.Writer
	out    *bufio.Writer
	is     Point
}

// begin begins a segment.
func (j *journal) begin(ctx context.Context, number int) (*segmentWriter, error) {
	base := number == j.base
	to, err := j.to.Create(ctx, number, j.base)
	if err != nil {
		return nil, err
	}
	packed, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return nil, errors.Join(err, to.Discard())
	}
	w := &segmentWriter{to: to, packed: packed, out: bufio.NewWriterSize(packed, 1<<20)}
	w.is.Number, w.is.Base = number, base
	err = writeJSON(w.out, frameHead, segmentHead{segmentMagic, segmentVersion, number, base, j.head})
	if err != nil {
		return nil, errors.Join(err, to.Discard())
	}
	return w, nil
}

// end writes the point, and makes the segment durable.
func (w *segmentWriter) end(at time.Time, epoch uint64) (Point, error) {
	w.is.Time, w.is.Epoch = at.UTC().Truncate(time.Millisecond), epoch
	err := writeJSON(w.out, framePoint, w.is)
	if err = errors.Join(err, w.out.Flush(), w.packed.Close()); err != nil {
		return w.is, errors.Join(err, w.to.Discard())
	}
	return w.is, w.to.Commit(w.is)
}

// put implements sink.
func (j *journal) put(_ context.Context, partition int, is written) error {
	frame, kind := binary.BigEndian.AppendUint16(nil, uint16(partition)), byte(frameContents)
	switch {
	case is.copied:
		kind = frameWhole
	case is.again:
		kind = frameAgain
	case is.change:
		kind = frameChange
	}
	if is.batch != nil {
		frame = codec.AppendBatch(frame, is.batch)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.now.is.Frames++
	return writeFrame(j.now.out, kind, frame)
}

// flush implements sink. Before nodes hold it makes room for what comes then.
func (j *journal) flush(context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.now.to.Settle()
}

// next has what is put from now on written to another segment, and returns the one before.
func (j *journal) next(w *segmentWriter) *segmentWriter {
	j.mu.Lock()
	defer j.mu.Unlock()
	before := j.now
	j.now = w
	return before
}

// Follow writes what a store holds, and then what changes, to a journal until ctx ends. Every so often there
// is a point, of which told is called when it is durable.
func Follow(ctx context.Context, from Nodes, to Segments, every time.Duration, told func(Point)) error {
	return followed(ctx, from, to, func(l *liveCopy, p Point, cut time.Time) (bool, error) {
		told(p)
		if p.Base {
			to.Tidy(ctx, p.Number)
		}
		return true, l.rest(time.Until(cut.Add(every)))
	})
}

// AddPoint writes what a store holds at a moment to a journal, as a base, while nodes serve it. The caller
// tells of it, and calls Tidy.
func AddPoint(ctx context.Context, from Nodes, to Segments) (p Point, err error) {
	err = followed(ctx, from, to, func(_ *liveCopy, is Point, _ time.Time) (bool, error) {
		p = is
		return false, nil
	})
	return p, err
}

// followed writes a journal, and calls then at each point, with the time of this machine's clock, until that
// returns false.
func followed(ctx context.Context, from Nodes, to Segments,
	then func(*liveCopy, Point, time.Time) (bool, error)) (err error) {
	j := &journal{to: to}
	defer func() {
		if j.now != nil {
			err = errors.Join(err, j.now.to.Discard())
		}
	}()
	l, _ := newLiveCopy(ctx, from)
	l.goesOn = true
	defer func() { err = errors.Join(err, l.close()) }() // before what nodes still send to is discarded
	if err := l.begin(); err != nil {
		return err
	}
	last, err := following(ctx, to, l.h)
	if err != nil {
		return err
	}
	number := last.Number + 1
	j.head, j.base = l.h, number
	if j.now, err = j.begin(ctx, number); err != nil {
		return err
	}
	l.to = j
	at := last.Time
	for goesOn := true; goesOn; {
		number++
		next, err := j.begin(ctx, number)
		if err != nil {
			return cause(l.ctx, err)
		}
		var now time.Time
		var epoch uint64
		var whole *segmentWriter
		if err := l.end(func(c cut) error {
			now, epoch, whole = time.Now(), c.epoch, j.next(next)
			return nil
		}); err != nil {
			return errors.Join(cause(l.ctx, err), next.to.Discard())
		}
		at = notBefore(now, at)
		point, err := whole.end(at, epoch)
		if err != nil {
			return err
		}
		if goesOn, err = then(l, point, now); err != nil {
			return cause(l.ctx, err)
		}
	}
	return nil
}

// notBefore is a time that is not before that of the last point: a clock may have been put back.
func notBefore(now, last time.Time) time.Time {
	if now.Before(last) {
		return last
	}
	return now
}

// AddBase writes what a store holds to a journal, as a base, and leaves the store as it was. The caller tells
// of it, and calls Tidy.
func AddBase(ctx context.Context, from store.Store, to Segments, p Progress) (
	result Result, point Point, err error) {
	if err := errors.Join(Usable(ctx, from), used(ctx, from)); err != nil {
		return result, point, err
	}
	f, work, err := freeze(ctx, from)
	if err != nil {
		return result, point, err
	}
	defer func() { err = errors.Join(err, f.thaw(ctx)) }()
	last, err := following(work, to, f.Head())
	if err != nil {
		return result, point, err
	}
	j := &journal{to: to, head: f.Head(), base: last.Number + 1}
	if j.now, err = j.begin(work, j.base); err != nil {
		return result, point, err
	}
	var all tally
	err = f.Each(work, func(ctx context.Context, partition int, b *store.Batch) error {
		return errors.Join(j.put(ctx, partition, written{batch: b}), all.add(partition, b, p))
	})
	for p := range f.shards {
		err = errors.Join(err, j.put(work, p, written{copied: true}))
	}
	if err == nil {
		err = f.hold(work)
	}
	if err != nil {
		return result, point, errors.Join(cause(work, err), j.now.to.Discard())
	}
	point, err = j.now.end(notBefore(time.Now(), last.Time), f.epoch)
	return all.result(), point, err
}

// mostUnreadable is how many of the last segments may be damaged where another one is to follow.
const mostUnreadable = 10

// following returns the last segment. What there is must be of the same store. A base that follows needs
// nothing of what is damaged, so that one which is not tells of which store it is, and its time.
func following(ctx context.Context, to Segments, h Head) (last Stored, err error) {
	last, err = to.Last(ctx, 0)
	var damaged error
	is := last
	for range mostUnreadable {
		if err == nil && is.Number > 0 {
			err = sameStore(ctx, to, is, h)
		}
		switch {
		case err == nil && is.Number == 0:
			return last, damaged
		case err == nil:
			if damaged != nil {
				to.Warned(fmt.Errorf("a segment cannot be restored, and another base follows: %w", damaged))
			}
			last.Time = notBefore(last.Time, is.Time)
			return last, nil
		case !errors.Is(err, ErrDamaged) || is.Number == 0:
			return last, err
		}
		damaged = cmp.Or(damaged, err)
		is, err = to.Last(ctx, is.Number)
	}
	return last, damaged
}

// sameStore is an error if a segment is of another store than that of a head.
func sameStore(ctx context.Context, to Segments, p Stored, h Head) error {
	s, err := openSegment(ctx, to, p)
	if err != nil {
		return err
	}
	if !bytes.Equal(s.says.MACKey, h.MACKey) {
		err = errors.New("there are backups of another store: give another place")
	}
	return errors.Join(err, s.Close())
}

// segment is one that is read.
type segment struct {
	io.Closer
	frames file
	says   segmentHead
}

// openSegment reads the head of a segment.
func openSegment(ctx context.Context, from Segments, p Stored) (*segment, error) {
	r, err := from.Open(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("segment %d: %w", p.Number, err)
	}
	s := &segment{Closer: r}
	packed, err := gzip.NewReader(r)
	if err == nil {
		s.frames.in = bufio.NewReaderSize(packed, 1<<20)
		err = s.begin()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("segment %d: %w", p.Number, damage(err)), r.Close())
	}
	if s.says.Version != segmentVersion {
		return nil, errors.Join(fmt.Errorf("segment %d is of version %d, this program knows %d", p.Number, s.says.Version,
			segmentVersion), r.Close())
	}
	if s.says.Number != p.Number || s.says.Base != p.Base {
		return nil, errors.Join(fmt.Errorf("segment %d: %w: it says to be segment %d", p.Number, ErrDamaged, s.says.Number),
			r.Close())
	}
	if err := readable(s.says.Head); err != nil {
		return nil, errors.Join(fmt.Errorf("segment %d: %w", p.Number, err), r.Close())
	}
	return s, nil
}

func (s *segment) begin() error {
	kind, b, err := s.frames.frame()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &s.says); kind != frameHead || err != nil || s.says.Magic != segmentMagic {
		return errors.New("it does not begin as a segment does")
	}
	return nil
}

// each passes on what a segment holds, and returns its point. What it has passed on is all of it only if it
// returns no error.
func (s *segment) each(ctx context.Context, take func(partition int, is written) error) (p Point, err error) {
	for frames := int64(0); ; frames++ {
		if ctx.Err() != nil {
			return p, ctx.Err()
		}
		kind, b, err := s.frames.frame()
		if err != nil {
			return p, err
		}
		if kind == framePoint {
			if err := json.Unmarshal(b, &p); err != nil || p.Frames != frames || p.Number != s.says.Number {
				return p, fmt.Errorf("%w: what it holds is not what its end says", ErrDamaged)
			}
			return p, s.frames.over()
		}
		partition, is, err := item(kind, b)
		if err != nil || partition >= s.says.Partitions {
			return p, fmt.Errorf("%w: a frame of kind %q, of partition %d: %w", ErrDamaged, kind, partition, err)
		}
		if err := take(partition, is); err != nil {
			return p, err
		}
	}
}

// item reads a frame.
func item(kind byte, b []byte) (partition int, is written, err error) {
	if len(b) < 2 {
		return 0, is, io.ErrUnexpectedEOF
	}
	partition = int(binary.BigEndian.Uint16(b))
	switch kind {
	case frameWhole, frameAgain:
		is.copied, is.again = kind == frameWhole, kind == frameAgain
		return partition, is, nil
	case frameContents, frameChange:
		is.change = kind == frameChange
		is.batch, err = codec.DecodeBatch(b[2:])
		return partition, is, err
	}
	return partition, is, errors.New("it is not known")
}

// CheckJournal reads the segments that lead to the last point at or before a time; zero: to the last one.
func CheckJournal(ctx context.Context, from Segments, t time.Time) (Head, Point, error) {
	chain, err := from.Chain(ctx, t)
	if err != nil {
		return Head{}, Point{}, err
	}
	return replay(ctx, from, chain, func(int, written) error { return nil })
}

// replay passes on what is in the segments that lead to a point, and returns the head of the store as of that
// point.
func replay(ctx context.Context, from Segments, chain []Stored, take func(partition int, is written) error) (
	h Head, last Point, err error) {
	for i, p := range chain {
		s, err := openSegment(ctx, from, p)
		if err != nil {
			return h, last, err
		}
		if i > 0 && (s.says.Partitions != h.Partitions || !bytes.Equal(s.says.MACKey, h.MACKey)) {
			return h, last, errors.Join(fmt.Errorf("%w: segment %d is of another store", ErrDamaged, p.Number), s.Close())
		}
		h = s.says.Head
		last, err = s.each(ctx, take)
		if err = errors.Join(err, s.Close()); err != nil {
			return h, last, fmt.Errorf("segment %d: %w", p.Number, err)
		}
		h.Epoch = last.Epoch
	}
	return h, last, nil
}

// RestoreJournal fills a store that is not there yet with what another one held at the last point at or
// before a time; zero: at the last one.
func RestoreJournal(ctx context.Context, from Segments, t time.Time, open Open, p Progress, then Arrived) (
	result Result, last Point, err error) {
	chain, err := from.Chain(ctx, t) // once: somebody may be writing others
	if err != nil {
		return result, last, err
	}
	// One that is damaged is to leave no half of a store behind.
	h, _, err := replay(ctx, from, chain, func(int, written) error { return nil })
	if err != nil {
		return result, last, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f, work, end, err := target(ctx, h, 0, open, false)
	if err != nil {
		return result, last, err
	}
	defer func() { err = errors.Join(err, end()) }()
	defer context.AfterFunc(work, func() { cancel(context.Cause(work)) })()
	to := newStoreSink(ctx, f, p, cancel)
	defer to.stop()
	_, last, err = replay(ctx, from, chain, func(partition int, is written) error {
		return to.put(ctx, partition, is)
	})
	if err == nil {
		err = to.flush(ctx)
	}
	to.stop()
	if err != nil {
		return result, last, cause(ctx, err)
	}
	var all tally
	if err := f.Each(ctx, func(_ context.Context, partition int, b *store.Batch) error {
		return all.add(partition, b, nil)
	}); err != nil {
		return result, last, fmt.Errorf("read back: %w", cause(ctx, err))
	}
	if err := then.call(ctx, h); err != nil {
		return result, last, cause(ctx, err)
	}
	return all.result(), last, f.finish(work)
}
