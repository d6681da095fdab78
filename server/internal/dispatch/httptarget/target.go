package httptarget

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
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

	flights *dispatch.Flights[*flight]
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
	if o.Dial == nil {
		g = &guard{o.Allow}
	}
	dial := o.dialler(guard{o.Allow})
	o.HostLimit = cmp.Or(o.HostLimit, DefaultHostLimit)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Payloads == nil {
		o.Payloads = noPayloads{}
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
		flights: dispatch.NewFlights(func(f *flight) string { return f.delivery.Run.Token })}
}

// Open implements [dispatch.Transport].
func (t *Target) Open(_ delivery.Queue, s *dispatch.Subscription) (dispatch.Consumer, int) {
	return &host{target: t, subscription: s, limit: t.options.HostLimit}, t.options.HostLimit
}

// start sends attempts, or none if the node is leaving.
func (t *Target) start(h *host, ds []delivery.Delivery) bool {
	fs, lives := make([]*flight, len(ds)), make([]context.Context, len(ds))
	for i := range ds {
		fs[i] = &flight{host: h, delivery: ds[i]}
		lives[i], fs[i].end = context.WithCancelCause(context.Background())
	}
	if !t.flights.Start(fs) {
		return false
	}
	for i, f := range fs {
		go t.fly(lives[i], f)
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
	t.flights.Land(f)
}

// attempt makes the request and judges its answer.
func (t *Target) attempt(ctx context.Context, f *flight) (r delivery.Report, answered, slow bool) {
	d := &f.delivery
	if enter := t.options.Enter; enter != nil {
		enter(d.Run)
	}
	watched, s := watch(ctx, f.end, t.options.Now)
	begun, timeout := time.Now(), cmp.Or(d.Timeout, DefaultTimeout)
	within := timeout / 2 // for secrets and payload together
	b := t.newBody(watched, f, within)
	defer b.close()
	named, err := t.resolve(watched, d, within)
	if err != nil {
		return t.unresolved(ctx, d.Run.Attempt, err), false, false
	}
	req, err := t.prepare(watched, f, b, within-time.Since(begun))
	if failed := b.failed(); failed != nil {
		return t.unread(ctx, failed), false, false
	}
	if err != nil {
		r.Message, r.Permanent = "no request can be made: "+err.Error(), true
		return r, false, false
	}
	named.set(req.Header)
	timer := time.AfterFunc(timeout-time.Since(begun), func() { b.timeUp(); f.end(errTimeout) })
	defer timer.Stop()
	resp, err := t.rounds.RoundTrip(req)
	if err != nil {
		failed := b.failed()
		if failed != nil && (context.Cause(ctx) == nil || errors.Is(failed, errSlow)) {
			return t.unread(ctx, failed), false, false
		}
		r.Message, r.Permanent = unanswered(err, context.Cause(ctx), timeout)
		message := named.hide([]byte(r.Message), false) // net/http quotes what is no answer
		r.Message = string(message[:min(len(message), carillon.MaxErrorBytes)])
		return r, false, errors.Is(err, errRefusedStream)
	}
	s.answered(resp.Header)
	timer.Reset(min(BodyTimeout, timeout-time.Since(begun)))
	r, slow = judge(resp, t.options.Now())
	kept, more := read(resp)
	kept = named.hide(kept, more)
	r.Response = kept[:min(len(kept), carillon.MaxResponse)]
	t.answered(named, resp.StatusCode)
	return r, true, slow
}

// prepare returns the request of a delivery. The payload store has answered by then, and has given all bytes
// once if the request is signed; the attempt waits for them no longer than within.
func (t *Target) prepare(ctx context.Context, f *flight, b *body,
	within time.Duration) (*http.Request, error) {
	if b.run.Data.Ref != nil {
		late := time.AfterFunc(within, b.giveUp)
		defer late.Stop()
	}
	if err := b.begin(f.host); err != nil {
		return nil, err
	}
	return newRequest(ctx, &f.delivery, b, t.options.Secrets(f.delivery.Queue.Namespace), t.options.Now())
}

// cancel ends the attempt with a token without a report.
func (t *Target) cancel(token string) {
	if f := t.flights.Find(token); f != nil {
		f.end(errCancelled)
	}
}

// Drain implements [dispatch.Transport]. Requests that are ended by force are reported as failed: the target
// may have done the run, and only the job's policy can say whether to try again.
func (t *Target) Drain(ctx context.Context) error {
	landed := t.flights.Leave()
	select {
	case <-landed:
		return nil
	case <-ctx.Done():
	}
	for _, f := range t.flights.All() {
		f.end(errStopped)
	}
	<-landed
	return ctx.Err()
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
