package buckettest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// ErrCut is the error of requests without an answer.
var ErrCut = errors.New("the connection was cut")

// fault is what becomes of a request.
type fault int

const (
	none       fault = iota
	lost             // it is lost on its way there
	unanswered       // it is done, and the answer is lost on its way back
	held             // it is done later, when its caller has given it up
	twice            // it is done twice
)

// faulty is a bucket some of whose requests go wrong, as is drawn for each.
type faulty struct {
	bucket.Bucket
	draw func() (fault, time.Duration)
	late sync.RWMutex // read-locked by each request that is to be done later
}

// through does a request, or what becomes of it.
func through[T any](f *faulty, do func() (T, error)) (answer T, err error) {
	switch drawn, later := f.draw(); drawn {
	case lost:
		return answer, ErrCut
	case held:
		f.late.RLock()
		time.AfterFunc(later, func() {
			defer f.late.RUnlock()
			_, _ = do() // nobody hears of it
		})
		return answer, ErrCut
	case twice:
		_, _ = do()
		return do()
	case unanswered:
		_, _ = do()
		return answer, ErrCut
	default:
		return do()
	}
}

// Get implements [bucket.Bucket].
func (f *faulty) Get(ctx context.Context, name string, known bucket.Version) (bucket.Object, error) {
	return through(f, func() (bucket.Object, error) { return f.Bucket.Get(ctx, name, known) })
}

// Create implements [bucket.Bucket].
func (f *faulty) Create(ctx context.Context, name string, data []byte) (bucket.Version, error) {
	ctx = context.WithoutCancel(ctx)
	return through(f, func() (bucket.Version, error) { return f.Bucket.Create(ctx, name, data) })
}

// Replace implements [bucket.Bucket].
func (f *faulty) Replace(ctx context.Context, name string, data []byte,
	was bucket.Version) (bucket.Version, error) {
	ctx = context.WithoutCancel(ctx)
	return through(f, func() (bucket.Version, error) { return f.Bucket.Replace(ctx, name, data, was) })
}

// Delete implements [bucket.Bucket].
func (f *faulty) Delete(ctx context.Context, name string) error {
	_, err := through(f, func() (struct{}, error) { return struct{}{}, f.Bucket.Delete(ctx, name) })
	return err
}

// List implements [bucket.Bucket].
func (f *faulty) List(ctx context.Context, prefix, after string, limit int) (bucket.Page, error) {
	return through(f, func() (bucket.Page, error) { return f.Bucket.List(ctx, prefix, after, limit) })
}

// Shaky is a bucket one in ten of whose requests goes wrong: they are lost on their way there, or the answer
// is lost on its way back, or they are done later, when their caller has given them up, or done twice.
type Shaky struct {
	faulty
	steady atomic.Bool

	mu   sync.Mutex
	dice *rand.Rand
}

// NewShaky returns a shaky bucket.
func NewShaky(b bucket.Bucket, dice *rand.Rand) *Shaky {
	s := &Shaky{dice: dice}
	s.faulty.Bucket, s.faulty.draw = b, func() (fault, time.Duration) {
		s.mu.Lock()
		defer s.mu.Unlock()
		drawn, later := fault(s.dice.IntN(40)), time.Duration(s.dice.IntN(150))*time.Millisecond
		if s.steady.Load() || drawn > twice {
			drawn = none
		}
		return drawn, later
	}
	return s
}

// Calm has nothing more go wrong, and waits for what is done later.
func (s *Shaky) Calm() {
	s.steady.Store(true)
	s.late.Lock()
	s.late.Unlock() //nolint:gocritic,staticcheck // Lock has waited for what is done later
}

// Dying is a bucket whose client is killed at one of its requests: that one is done and not answered, or not
// done, and none after it is.
type Dying struct {
	faulty
	left atomic.Int64
}

// NewDying returns a bucket whose client is killed at the n-th request, which is done or not.
func NewDying(b bucket.Bucket, n int, done bool) *Dying {
	d := &Dying{}
	d.left.Store(int64(n))
	d.faulty.Bucket, d.faulty.draw = b, func() (fault, time.Duration) {
		switch left := d.left.Add(-1); {
		case left > 0:
			return none, 0
		case left == 0 && done:
			return unanswered, 0
		}
		return lost, 0
	}
	return d
}

// Dead reports whether the client was killed.
func (d *Dying) Dead() bool { return d.left.Load() <= 0 }
