package httpapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// endless is a store that takes whatever comes and whose payloads do not end.
type endless struct{ carillon.Payloads }

func (endless) PutPayload(_ context.Context, _ string, from io.Reader) (ref carillon.PayloadRef, err error) {
	_, err = io.Copy(io.Discard, from)
	return ref, err
}

func (endless) GetPayload(context.Context, string, carillon.PayloadRef) (io.ReadCloser, error) {
	return io.NopCloser(zeros{}), nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// hold is a store that does nothing from begun on, until what its caller does is being cut.
type hold struct {
	carillon.Payloads
	begun, cutting chan struct{}
}

func (h hold) PutPayload(context.Context, string, io.Reader) (carillon.PayloadRef, error) {
	close(h.begun)
	<-h.cutting
	return carillon.PayloadRef{}, context.Canceled
}

func (h hold) GetPayload(context.Context, string, carillon.PayloadRef) (io.ReadCloser, error) {
	return h, nil
}

func (h hold) Read([]byte) (int, error) {
	close(h.begun)
	<-h.cutting
	return 0, context.Canceled
}

func (hold) Close() error { return nil }

// lent is an answer that is the handler's until it returns: nothing may set a deadline after that.
type lent struct {
	http.ResponseWriter
	before   func(time.Time) // is called when a deadline is set
	returned atomic.Bool
	late     *atomic.Int64 // how many deadlines were set too late
	cut      chan struct{} // is closed when one was set that is over
}

func (l *lent) Unwrap() http.ResponseWriter { return l.ResponseWriter }

func (l *lent) SetReadDeadline(at time.Time) error {
	return l.set(at, (*http.ResponseController).SetReadDeadline)
}
func (l *lent) SetWriteDeadline(at time.Time) error {
	return l.set(at, (*http.ResponseController).SetWriteDeadline)
}

func (l *lent) set(at time.Time, set func(*http.ResponseController, time.Time) error) error {
	if over := !at.IsZero() && at.Before(time.Now()); over && l.cut != nil {
		defer close(l.cut)
	}
	l.before(at)
	if l.returned.Load() {
		l.late.Add(1)
		return nil
	}
	return set(http.NewResponseController(l.ResponseWriter), at)
}

// serve serves a payload with an answer that is lent.
func (l *lent) serve(h *handler, r *http.Request) {
	defer l.returned.Store(true)
	f := &found{route: &route{raw: h.putPayload}}
	if r.Method == http.MethodGet {
		ref := carillon.PayloadRef{Day: 1, Size: carillon.MaxStoredPayload}
		f = &found{route: &route{raw: h.getPayload}, params: []param{{"payload", ref.String()}}}
	}
	h.raw(l, r, f)
}

func payloadsOf(store carillon.Payloads) *handler {
	h := &handler{}
	h.options.Logger, h.options.Payloads.Store = slog.New(slog.DiscardHandler), store
	return h
}

// TestCutsEndBeforeTheHandler: a transfer whose caller leaves returns when nothing touches its connection any
// more.
func TestCutsEndBeforeTheHandler(t *testing.T) {
	for _, method := range []string{http.MethodPut, http.MethodGet} {
		t.Run(method, func(t *testing.T) {
			cutting, over := make(chan struct{}), make(chan struct{})
			w := &lent{ResponseWriter: httptest.NewRecorder(), late: new(atomic.Int64), cut: make(chan struct{})}
			w.before = func(at time.Time) {
				if !at.IsZero() && at.Before(time.Now()) {
					close(cutting)
					select { // a handler that does not wait for this returns meanwhile
					case <-over:
					case <-time.After(50 * time.Millisecond):
					}
				}
			}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			r := httptest.NewRequestWithContext(ctx, method, "/", strings.NewReader("x"))
			held := hold{begun: make(chan struct{}), cutting: cutting}
			go func() {
				defer close(over)
				defer func() {
					r := recover()
					if err, is := r.(error); r != nil && !(is && errors.Is(err, http.ErrAbortHandler)) { // bytes are missing
						panic(r)
					}
				}()
				w.serve(payloadsOf(held), r)
			}()
			<-held.begun
			leave()
			<-over
			<-w.cut
			if n := w.late.Load(); n != 0 {
				t.Errorf("%d deadlines were set after the handler had returned", n)
			}
		})
	}
}

// TestResetTransfers: callers of HTTP/2 that reset what they send or read do no harm. Memory is collected all
// the time, so that the runtime sees what is freed too early while a handler panics (decision 0120).
func TestResetTransfers(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	const callers, each = 8, 50
	h := payloadsOf(endless{})
	var late, served atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			served.Add(1)
		}
		l := &lent{ResponseWriter: w, late: &late, before: func(time.Time) { runtime.Gosched() }}
		l.serve(h, r)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	defer s.Close()
	put := func(ctx context.Context, reset context.CancelFunc) {
		body, more := io.Pipe()
		defer more.Close()
		go func() {
			_, _ = more.Write([]byte("x")) // it fails if the call has ended
			reset()
		}()
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, s.URL, body)
		if err != nil {
			t.Error(err)
			return
		}
		if res, err := s.Client().Do(r); err == nil {
			t.Errorf("a body that was reset has an answer: %v", res.Status)
			res.Body.Close()
		}
	}
	get := func(ctx context.Context, reset context.CancelFunc) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		if err != nil {
			t.Error(err)
			return
		}
		res, err := s.Client().Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		if _, err := io.ReadFull(res.Body, make([]byte, 1)); err != nil {
			t.Error(err)
		}
		reset()
	}
	var all sync.WaitGroup
	for i := range callers {
		transfer := put
		if i%2 == 1 {
			transfer = get
		}
		all.Go(func() {
			for range each {
				ctx, reset := context.WithCancel(t.Context())
				transfer(ctx, reset)
				reset()
			}
		})
	}
	all.Wait()
	s.Close() // waits for the handlers
	if n := late.Load(); n != 0 || served.Load() == 0 {
		t.Errorf("of %d transfers %d had deadlines set after they had returned", served.Load(), n)
	}
}
