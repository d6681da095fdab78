package transfer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// Bucket keeps the segments of a journal in a bucket. Nothing of it is on this machine's disk.
//
//	PREFIX/segments/000000000001            a segment, or its end: it counts when this object is there
//	PREFIX/parts/000000000001/RUN/000000    and what comes before that of a large one, in parts of 8 MiB
//
// Each object is created if there is none of its name, and read back. So of several commands that write the
// segment of a number one succeeds, and the others end. What a command that was killed has left of a segment
// is removed when the base of another one is there: nobody can complete it any more.
type Bucket struct {
	to     bucket.Bucket
	prefix string // of all names, with its slash
	run    string // of the command
	part   int    // bytes of a part
	away   time.Duration
	warn   func(error)
}

const (
	defaultPrefix = "carillon-backup"
	partBytes     = 8 << 20
)

// BucketOptions are those of a [Bucket]; zero values are the defaults.
type BucketOptions struct {
	// Part is how many bytes of a segment an object has at most. They are in memory, three times. Default 8 MiB.
	Part int
	// Away is how long a bucket that does not answer is asked again. Default 5 min.
	Away time.Duration
	// Warn is called if something cannot be removed that is of no use any more, or is damaged and not needed.
	// Default: nobody hears of it.
	Warn func(error)
}

// OpenBucket returns the place of a URL, such as s3://BUCKET/PREFIX.
func OpenBucket(ctx context.Context, url string, o BucketOptions) (*Bucket, error) {
	at, err := bucket.Parse(url)
	if err != nil {
		return nil, err
	}
	to, err := at.Connect(ctx, nil)
	if err != nil {
		return nil, err
	}
	return NewBucket(to, at.Prefix, o), nil
}

// NewBucket returns a place whose objects have names that begin with a prefix. Default "carillon-backup".
func NewBucket(to bucket.Bucket, prefix string, o BucketOptions) *Bucket {
	b := &Bucket{to: to, prefix: cmp.Or(prefix, defaultPrefix) + "/", run: strings.ToLower(rand.Text()),
		part: cmp.Or(o.Part, partBytes), away: cmp.Or(o.Away, mostAway), warn: o.Warn}
	if b.warn == nil {
		b.warn = func(error) {}
	}
	return b
}

// stored is what the object of a segment says.
func (b *Bucket) stored(h objectHead) Stored {
	return Stored{Number: h.Number, Base: h.Number == h.chainID.Base, Name: b.segmentName(h.Number),
		Time: h.Time, of: h.chainID}
}

// Last implements [Segments].
func (b *Bucket) Last(ctx context.Context, below int) (last Stored, err error) {
	all, err := b.numbers(ctx)
	if below > 0 {
		until, _ := slices.BinarySearch(all, below)
		all = all[:until]
	}
	if err != nil || len(all) == 0 {
		return last, err
	}
	number := all[len(all)-1]
	h, _, err := b.object(ctx, number)
	if err != nil {
		return Stored{Number: number, Name: b.segmentName(number)}, err
	}
	return b.stored(h), nil
}

// Warned implements [Segments].
func (b *Bucket) Warned(err error) { b.warn(err) }

// Chain implements [Segments]. It reads few of the segments: their times are in their order. Of those that it
// reads on its way one that is damaged is passed over, to the next one.
func (b *Bucket) Chain(ctx context.Context, until time.Time) ([]Stored, error) {
	all, err := b.numbers(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errNoBackup
	}
	end := len(all)
	if !until.IsZero() {
		if end, err = b.firstAfter(ctx, all, until); err != nil {
			return nil, err
		}
	}
	first, _, err := b.object(ctx, all[max(0, end-1)])
	if err != nil {
		return nil, err
	}
	if end == 0 {
		return nil, errBefore(first.Time)
	}
	return b.linked(all[:end], first)
}

// firstAfter returns where the first segment is whose point is after a time. What lies before that and cannot
// be read may be of the time that was asked for: that is an error, unless there is a point of just that time.
func (b *Bucket) firstAfter(ctx context.Context, all []int, until time.Time) (end int, err error) {
	damaged := map[int]error{}
	exact := false
	after := func(i int) bool {
		for ; i < len(all) && err == nil; i++ {
			if damaged[i] != nil {
				continue
			}
			h, _, failed := b.object(ctx, all[i])
			switch {
			case failed == nil:
				exact = exact || h.Time.Equal(until)
				return h.Time.After(until)
			case errors.Is(failed, ErrDamaged):
				damaged[i] = failed
			default:
				err = failed
			}
		}
		return true
	}
	end = sort.Search(len(all), after)
	if err == nil && damaged[end] != nil && !exact {
		err = fmt.Errorf("it may be what was asked for: %w", damaged[end])
	}
	return end, err
}

// linked returns the segments from a base to the last one, which was read.
func (b *Bucket) linked(all []int, last objectHead) (chain []Stored, err error) {
	for number := last.chainID.Base; number <= last.Number; number++ {
		if _, found := slices.BinarySearch(all, number); !found {
			return nil, fmt.Errorf("%w: object %s is missing", ErrDamaged, b.segmentName(number))
		}
		chain = append(chain, Stored{Number: number, Base: number == last.chainID.Base, Name: b.segmentName(number),
			of: last.chainID})
	}
	return chain, nil
}

// Open implements [Segments].
func (b *Bucket) Open(ctx context.Context, s Stored) (io.ReadCloser, error) {
	h, rest, err := b.object(ctx, s.Number)
	if err != nil {
		return nil, err
	}
	if h.chainID != s.of {
		return nil, fmt.Errorf("%w: object %s is of another backup", ErrDamaged, s.Name)
	}
	return &bucketReader{b: b, ctx: ctx, head: h, rest: rest}, nil
}

// bucketReader reads a segment, part by part.
type bucketReader struct {
	b    *Bucket
	ctx  context.Context
	head objectHead
	rest []byte
	next int // part
	now  bytes.Reader
}

// Read implements [io.Reader].
func (r *bucketReader) Read(p []byte) (int, error) {
	for r.now.Len() == 0 {
		switch {
		case r.next > len(r.head.Parts):
			return 0, io.EOF
		case r.next == len(r.head.Parts):
			r.now.Reset(r.rest)
		default:
			name := r.b.partName(r.head.Number, r.head.Run, r.next)
			data, err := r.b.get(r.ctx, name)
			if err != nil {
				return 0, err
			}
			if sumOf(data) != r.head.Parts[r.next] {
				return 0, fmt.Errorf("%w: object %s is not what was written", ErrDamaged, name)
			}
			r.now.Reset(data)
		}
		r.next++
	}
	return r.now.Read(p)
}

// Close implements [io.Closer].
func (r *bucketReader) Close() error { return nil }

// Create implements [Segments].
func (b *Bucket) Create(ctx context.Context, number, base int) (Segment, error) {
	ctx, end := context.WithCancel(ctx)
	return &bucketSegment{b: b, ctx: ctx, end: end, of: chainID{b.run, base}, number: number}, nil
}

// bucketSegment is a segment that is written.
type bucketSegment struct {
	b      *Bucket
	ctx    context.Context
	end    context.CancelFunc
	of     chainID
	number int
	parts  []objectSum // of which the last one may be under way
	rest   []byte
	sent   chan error // gets what became of the part that is under way; nil: none is
	free   []byte     // room for a part
}

// Write implements [Segment]. It waits only if a part is full while another one is under way: nodes may hold
// meanwhile, which lasts as long as what they have sent takes to be written.
func (s *bucketSegment) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		if len(s.rest) == s.b.part {
			if err := s.Settle(); err != nil {
				return n, err
			}
			s.send()
		}
		some := min(len(p), s.b.part-len(s.rest))
		s.rest = append(s.rest, p[:some]...)
		p, n = p[some:], n+some
	}
	return n, nil
}

// send begins to write what there is as a part.
func (s *bucketSegment) send() {
	part, name, sent := s.rest, s.b.partName(s.number, s.b.run, len(s.parts)), make(chan error, 1)
	s.parts, s.sent = append(s.parts, sumOf(part)), sent
	s.rest, s.free = s.free[:0], part
	go func() { sent <- s.b.put(s.ctx, name, part) }()
}

// Settle implements [Segment]. The first error stays.
func (s *bucketSegment) Settle() error {
	if s.sent == nil {
		return nil
	}
	err := <-s.sent
	if err != nil {
		s.sent <- err
		return err
	}
	s.sent = nil
	return nil
}

// Commit implements [Segment].
func (s *bucketSegment) Commit(p Point) error {
	defer s.end()
	if err := s.Settle(); err != nil {
		return errors.Join(err, s.Discard())
	}
	data, err := encodeObject(objectHead{Point: p, chainID: s.of, Parts: s.parts}, s.rest)
	if err == nil {
		err = s.b.put(s.ctx, s.b.segmentName(s.number), data)
	}
	switch {
	case errors.Is(err, errOther):
		err = fmt.Errorf("another command writes backups to this place: segment %d is not of this one: %w", s.number, err)
		// Parts go only if it is certain that no segment has them.
		is, failed := s.b.headOf(s.ctx, s.number)
		if failed == nil && is.Run != "" && is.Run != noRun && is.Run != s.b.run {
			failed = s.Discard()
		}
		return errors.Join(err, failed)
	case err != nil:
		// The object may be there, or may still come, also if a request was refused: another one before that, or
		// the one to read it back. So its parts stay. The next base removes them if another command has written
		// the segment.
		return err
	}
	return nil
}

// discardWithin is how long the removal of what nobody will need may take, all in all: the next command tries
// it again.
const discardWithin = 20 * time.Second

// Discard implements [Segment].
func (s *bucketSegment) Discard() error {
	ctx, done := context.WithTimeout(context.WithoutCancel(s.ctx), discardWithin)
	defer done()
	s.end()
	_ = s.Settle() // a part may be there though it failed
	for part := range s.parts {
		if err := s.b.remove(ctx, s.b.partName(s.number, s.b.run, part)); err != nil {
			s.b.warn(err)
			break
		}
	}
	s.parts, s.rest, s.free = nil, nil, nil
	return nil
}

// remove removes an object that is of no use.
func (b *Bucket) remove(ctx context.Context, name string) error {
	err := b.again(ctx, func(ctx context.Context) error { return b.to.Delete(ctx, name) })
	if err != nil {
		return fmt.Errorf("remove %s, which is not needed: %w", name, err)
	}
	return nil
}

// tidyChains is for how many bases before the last one it is looked for what is of no use. The commands that
// have written them have looked, too, unless they were killed.
const tidyChains = 3

// Tidy implements [Segments]. It gives up at the first request that fails.
func (b *Bucket) Tidy(ctx context.Context, number int) {
	if ctx.Err() != nil { // the command ends
		return
	}
	ctx, done := context.WithTimeout(ctx, discardWithin)
	defer done()
	if err := b.removeLeft(ctx, number); err != nil {
		b.warn(err)
	}
}

func (b *Bucket) removeLeft(ctx context.Context, number int) error {
	runs := map[int]string{} // that have written the segments; empty: it is not known
	from := number
	for range tidyChains {
		if from <= 1 {
			break
		}
		h, err := b.headOf(ctx, from-1)
		if err != nil {
			return err
		}
		runs[from-1] = h.Run
		if h.chainID.Base <= 0 { // it is not there, or not known
			break
		}
		from = h.chainID.Base
	}
	var names []string
	note := func(name string) { names = append(names, name) }
	if err := b.list(ctx, partsFolder, fmt.Sprintf("%012d", from), note); err != nil {
		return err
	}
	for _, name := range names {
		first, rest, _ := strings.Cut(name, "/")
		run, _, _ := strings.Cut(rest, "/")
		of, err := strconv.Atoi(first)
		if err != nil || !objectName.MatchString(first) || of > number || run == b.run {
			continue
		}
		if _, known := runs[of]; !known {
			h, err := b.headOf(ctx, of)
			if err != nil {
				return err
			}
			runs[of] = h.Run
		}
		if is := runs[of]; is != "" && is != run {
			if err := b.remove(ctx, b.prefix+partsFolder+name); err != nil {
				return err
			}
		}
	}
	return nil
}

// noRun has written the segments that are not there.
const noRun = "-"

// headOf returns what a segment says; the run is empty if that cannot be read of it.
func (b *Bucket) headOf(ctx context.Context, number int) (h objectHead, err error) {
	name := b.segmentName(number)
	var found bucket.Object
	err = b.again(ctx, func(ctx context.Context) (err error) {
		found, err = b.to.Get(ctx, name, "")
		return err
	})
	switch {
	case errors.Is(err, bucket.ErrAbsent):
		return objectHead{chainID: chainID{Run: noRun}}, nil
	case err != nil:
		return h, fmt.Errorf("read %s, to find out what is not needed: %w", name, err)
	}
	if h, _, err = decodeObject(number, found.Data); err != nil {
		b.warn(fmt.Errorf("%s cannot tell what is not needed: %w", name, err))
		return objectHead{}, nil
	}
	return h, nil
}
