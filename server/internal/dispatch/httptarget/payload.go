package httptarget

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
)

// noPayloads are those of a node that can read none.
type noPayloads struct{}

var errNoPayloads = errors.New("this node has no payload store")

// Get implements [dispatch.Payloads].
func (noPayloads) Get(context.Context, string, carillon.PayloadRef) (io.ReadCloser, error) {
	return nil, errNoPayloads
}

// PutOff implements [dispatch.Payloads].
func (noPayloads) PutOff(error) (time.Duration, bool) { return time.Minute, true }

// busy is why a delivery is put off while others wait for their payloads, and for how long.
type busy time.Duration

// Error implements error.
func (busy) Error() string { return "too many requests to this host wait for their payloads" }

// errSlow is why an attempt is put off whose time has passed while it waited for its payload.
var errSlow = errors.New("the payload store has not given it in time")

// How long it is put off.
const (
	busyPause     = 2 * time.Second
	lastBusyPause = time.Minute
)

// body is what a request of a delivery sends: the bytes that come with it, or those that it refers to, which
// are read as they are sent. It knows whether the attempt waits for the payload store or for the target.
type body struct {
	ctx      context.Context // of reads
	end      context.CancelFunc
	run      *carillon.Run
	payloads dispatch.Payloads
	within   time.Duration // how long the attempt may wait for the payload store, in all
	done     func()        // called once when the payload has been read, or is not needed any more

	mu     sync.Mutex
	from   *payloadReader // that is open; nil: none
	err    error          // why the payload could not be read; nil: it could
	left   int64          // bytes that are still to be read to send them
	since  time.Time      // when the store was asked for what it has not answered; zero: nothing
	waited time.Duration  // for the store so far
}

// newBody returns the body of a delivery, which reads nothing yet.
func (t *Target) newBody(ctx context.Context, f *flight, within time.Duration) *body {
	b := &body{run: f.delivery.Run, payloads: t.options.Payloads, within: within, done: func() {}}
	b.ctx, b.end = context.WithCancel(ctx)
	return b
}

// begin has the payload store answer, if the payload does not come with the delivery.
func (b *body) begin(h *host) error {
	if b.run.Data.Ref == nil {
		return nil
	}
	if err := h.beginReading(time.Now()); err != nil {
		b.fail(err)
		return err
	}
	b.done = sync.OnceFunc(h.endReading)
	from, err := b.open()
	b.from = from
	return err
}

// open asks the payload store for the bytes.
func (b *body) open() (*payloadReader, error) {
	b.asks()
	from, err := b.payloads.Get(b.ctx, b.run.Namespace, *b.run.Data.Ref)
	b.answers(0)
	if err != nil {
		b.fail(err)
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = b.run.Data.Ref.Size
	return &payloadReader{body: b, from: from, left: b.left, read: b.done}, nil
}

// asks notes that the store is asked for something.
func (b *body) asks() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since = time.Now()
}

// answers notes that it has answered with n bytes.
func (b *body) answers(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waited += time.Since(b.since)
	b.since, b.left = time.Time{}, b.left-int64(n)
}

// giveUp ends reads: the payload was to be there by now.
func (b *body) giveUp() {
	b.fail(errSlow)
	b.end()
}

// timeUp notes whose fault it is that the time of the attempt is over. It is the target's once it could have
// had all bytes, or if it waited for the store for a short time only, and not any more.
func (b *body) timeUp() {
	b.mu.Lock()
	blocked := !b.since.IsZero()
	slow := b.left > 0 && (blocked || b.waited >= b.within)
	b.mu.Unlock()
	if slow {
		b.fail(errSlow)
	}
}

// fail notes the first error of the payload.
func (b *body) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
}

// failed returns why the payload could not be read; nil: it could.
func (b *body) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// take returns the open reader, or opens another one.
func (b *body) take() (*payloadReader, error) {
	b.mu.Lock()
	from := b.from
	b.from = nil
	b.mu.Unlock()
	if from != nil {
		return from, nil
	}
	return b.open()
}

// close closes what was opened and not used.
func (b *body) close() {
	b.mu.Lock()
	from := b.from
	b.from = nil
	b.mu.Unlock()
	if from != nil {
		_ = from.Close() // nobody reads it
	}
	b.end()
	b.done()
}

// stream makes the payload the body of a request, if it is one that is referred to.
func (b *body) stream(req *http.Request) {
	if b.run.Data.Ref == nil {
		return
	}
	req.ContentLength = b.run.Data.Ref.Size
	req.GetBody = func() (io.ReadCloser, error) { return b.take() }
	req.Body = &lateBody{open: b.take}
}

// writeTo writes all bytes to w.
func (b *body) writeTo(w io.Writer) error {
	if b.run.Data.Ref == nil {
		_, err := w.Write(b.run.Data.Bytes)
		return err
	}
	from, err := b.take()
	if err != nil {
		return err
	}
	from.read = func() {} // it is read again to be sent
	_, err = io.Copy(w, from)
	return errors.Join(err, from.Close())
}

// lateBody is opened at the first read.
type lateBody struct {
	open func() (*payloadReader, error)
	from *payloadReader
}

// Read implements [io.Reader].
func (l *lateBody) Read(p []byte) (n int, err error) {
	if l.from == nil {
		if l.from, err = l.open(); err != nil {
			return 0, err
		}
	}
	return l.from.Read(p)
}

// Close implements [io.Closer].
func (l *lateBody) Close() error {
	if l.from == nil {
		return nil
	}
	return l.from.Close()
}

// payloadReader is a payload on its way to a target.
type payloadReader struct {
	body *body
	from io.ReadCloser
	left int64
	read func() // called when all was read

	closed atomic.Bool
}

// Read implements [io.Reader].
func (p *payloadReader) Read(b []byte) (int, error) {
	p.body.asks()
	n, err := p.from.Read(b)
	p.body.answers(n)
	if p.left -= int64(n); p.left == 0 {
		p.read()
	}
	if err != nil && !errors.Is(err, io.EOF) && !p.closed.Load() {
		p.body.fail(err)
	}
	return n, err
}

// Close implements [io.Closer].
func (p *payloadReader) Close() error {
	p.closed.Store(true) // a read that fails from now on fails because of this
	return p.from.Close()
}

// unread returns the report of an attempt whose payload could not be read. If that may pass, nothing was
// attempted: the run is put off, and its policy does not count it.
func (t *Target) unread(ctx context.Context, err error) (r delivery.Report) {
	wait, isBusy := errors.AsType[busy](err)
	pause, passes := time.Duration(wait), true
	if !isBusy {
		pause, passes = t.options.Payloads.PutOff(err)
	}
	if errors.Is(context.Cause(ctx), errStopped) { // the node leaves: another one may read it
		pause, passes = 0, true
	}
	r.Message = fmt.Sprintf("its payload: %v", err)
	r.Message = r.Message[:min(len(r.Message), carillon.MaxErrorBytes)]
	if !passes {
		return r // an outcome of zero is a failure
	}
	r.Outcome = carillon.OutcomeReschedule
	r.At = t.options.Now().Add(pause + rand.N(pause/2+1))
	return r
}
