package httptarget

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
)

// Target is the [dispatch.Transport] of HTTP targets. Each attempt has a goroutine: starting it is 1 % of the
// cost of a callback, so a pool would gain nothing (BenchmarkHTTP).
//
// An attempt is at most one request that the target may have read: see [sending] and [http2Conns].
type Target struct {
	options Options
	guard   *guard // nil: Options.Dial dials
	client  *http.Transport
	rounds  http.RoundTripper // the client, with what is around it
	http2   *http2Conns

	mu      sync.Mutex
	flights map[string]*flight // by token
	flying  int
	leaving bool
	landed  chan struct{} // closed when leaving and nothing is in flight
}

// flight is an attempt in flight.
type flight struct {
	host     *host
	delivery delivery.Delivery
	end      context.CancelCauseFunc
}

// New returns the transport.
func New(o Options) *Target {
	var g *guard
	dial := dialFunc(o.Dial)
	if dial == nil {
		g = &guard{o.Allow}
		dial = (&net.Dialer{Timeout: connectTimeout, Resolver: o.Resolver, Control: g.control}).DialContext
	}
	o.HostLimit = cmp.Or(o.HostLimit, DefaultHostLimit)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Secrets == nil {
		o.Secrets = func(string) [][]byte { return nil }
	}
	h2 := newHTTP2Conns()
	client := &http.Transport{ // Proxy stays nil: the environment must not set one
		DialContext:            counted(dial),
		DialTLSContext:         dialTLS(dial, o.TLS),
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{"h2": h2.upgrade},
		DisableCompression:     true, // a body is kept as it came
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    o.HostLimit,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: MaxResponseHeader,
	}
	rounds := http.RoundTripper(client)
	if o.Around != nil {
		rounds = o.Around(client)
	}
	return &Target{options: o, guard: g, client: client, rounds: rounds, http2: h2,
		flights: map[string]*flight{}, landed: make(chan struct{})}
}

// Open implements [dispatch.Transport].
func (t *Target) Open(_ delivery.Queue, s *dispatch.Subscription) (dispatch.Consumer, int) {
	return &host{target: t, subscription: s, limit: t.options.HostLimit}, t.options.HostLimit
}

// start sends attempts, or none if the node is leaving.
func (t *Target) start(h *host, ds []delivery.Delivery) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leaving {
		return false
	}
	t.flying += len(ds)
	for i := range ds {
		ctx, end := context.WithCancelCause(context.Background())
		f := &flight{host: h, delivery: ds[i], end: end}
		t.flights[ds[i].Run.Token] = f
		go t.fly(ctx, f)
	}
	return true
}

// fly makes the request and reports its outcome, unless it was cancelled.
func (t *Target) fly(ctx context.Context, f *flight) {
	start := time.Now()
	r, answered, slow := t.attempt(ctx, f)
	cancelled := errors.Is(context.Cause(ctx), errCancelled)
	f.end(nil)
	if !cancelled {
		run := f.delivery.Run
		r.Token, r.RunID, r.Worker = run.Token, run.ID, f.delivery.Queue.Address
		f.host.subscription.Sink().Reports([]delivery.Report{r})
	}
	f.host.done(start, answered, slow, r.RetryAfter)
	t.land(f)
}

// attempt makes the request and judges its answer.
func (t *Target) attempt(ctx context.Context, f *flight) (r delivery.Report, answered, slow bool) {
	d := &f.delivery
	if enter := t.options.Enter; enter != nil {
		enter(d.Run)
	}
	watched, s := watch(ctx, f.end, t.options.Now)
	req, err := newRequest(watched, d, t.options.Secrets(d.Queue.Namespace), t.options.Now())
	if err != nil {
		r.Message, r.Permanent = "no request can be made: "+err.Error(), true
		return r, false, false
	}
	timeout := cmp.Or(d.Timeout, DefaultTimeout)
	begun := time.Now()
	timer := time.AfterFunc(timeout, func() { f.end(errTimeout) })
	defer timer.Stop()
	resp, err := t.rounds.RoundTrip(req)
	if err != nil {
		r.Message, r.Permanent = unanswered(err, context.Cause(ctx), timeout)
		r.Message = r.Message[:min(len(r.Message), carillon.MaxErrorBytes)]
		return r, false, errors.Is(err, errRefusedStream)
	}
	s.answered(resp.Header)
	timer.Reset(min(BodyTimeout, timeout-time.Since(begun)))
	r, slow = judge(resp, t.options.Now())
	r.Response = read(resp)
	return r, true, slow
}

// land removes an attempt from those in flight.
func (t *Target) land(f *flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if token := f.delivery.Run.Token; t.flights[token] == f {
		delete(t.flights, token)
	}
	if t.flying--; t.leaving && t.flying == 0 {
		close(t.landed)
	}
}

// cancel ends the attempt with a token without a report.
func (t *Target) cancel(token string) {
	t.mu.Lock()
	f := t.flights[token]
	t.mu.Unlock()
	if f != nil {
		f.end(errCancelled)
	}
}

// Drain implements [dispatch.Transport]. Requests that are ended by force are reported as failed: the target
// may have done the run, and only the job's policy can say whether to try again.
func (t *Target) Drain(ctx context.Context) error {
	t.leave()
	select {
	case <-t.landed:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	for _, f := range t.flights {
		f.end(errStopped)
	}
	t.mu.Unlock()
	<-t.landed
	return ctx.Err()
}

// leave prevents new attempts.
func (t *Target) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leaving {
		return
	}
	t.leaving = true
	if t.flying == 0 {
		close(t.landed)
	}
}

// Close implements [dispatch.Transport].
func (t *Target) Close() error {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = t.Drain(now) // it only reports that requests were ended
	t.client.CloseIdleConnections()
	t.http2.close()
	return nil
}
