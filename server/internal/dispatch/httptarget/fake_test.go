package httptarget

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/store"
)

// fakeSink is an engine of one partition that delivers what it is told to.
type fakeSink struct {
	hub     *dispatch.Hub
	target  *Target
	reports chan delivery.Report
	given   chan sent
	back    chan string // undelivered
}

func (d *fakeSink) Reports(rs []delivery.Report) {
	for _, r := range rs {
		d.reports <- r
	}
}

func (d *fakeSink) Heartbeats([]carillon.Heartbeat, delivery.Reporter) {}
func (d *fakeSink) Slots(_ delivery.Owner, q delivery.Queue, n int)    { d.given <- sent{q, n} }
func (d *fakeSink) Consumers(delivery.Queue)                           {}
func (d *fakeSink) Lost([]string)                                      {}

func (d *fakeSink) Undelivered(tokens []string) {
	for _, t := range tokens {
		d.back <- t
	}
}

// sent is what a waiting partition gets.
type sent struct {
	q delivery.Queue
	n int
}

// open makes a hub with the target as its only transport.
func open(t testing.TB, target *Target) *fakeSink {
	t.Helper()
	d := &fakeSink{target: target, reports: make(chan delivery.Report, 1<<12),
		given: make(chan sent, 1<<12), back: make(chan string, 1<<12)}
	d.hub = dispatch.New(d, dispatch.Options{Transports: map[string]dispatch.Transport{"http": target}})
	t.Cleanup(func() {
		if err := d.hub.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// loopback allows what httptest servers listen on.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// delivery is an attempt for a URL.
func newDelivery(seq int, to string) delivery.Delivery {
	id := store.RunID{Scheduled: 1_800_000_000_000_000_000, Seq: uint64(seq)}.String()
	target := carillon.HTTP(to)
	return delivery.Delivery{
		Queue:  delivery.QueueOf("default", target),
		Target: target,
		Run: &carillon.Run{ID: id, Namespace: "default", Job: "reports/nightly", Token: "token-" + id, Attempt: 1,
			Scheduled: time.Unix(1_800_000_000, 0), Deadline: time.Unix(1_800_000_030, 0), Data: carillon.JSON("x")},
		Timeout: time.Minute,
	}
}

// deliver takes a slot, which must be free, and uses it.
func (d *fakeSink) deliver(t testing.TB, v delivery.Delivery) {
	t.Helper()
	if n, ok := d.take(0, v.Queue, 1, delivery.Head{}); n != 1 || !ok {
		t.Fatalf("no slot: %d %v", n, ok)
	}
	d.hub.Deliver(0, []delivery.Delivery{v}, nil)
}

// do delivers and waits for the report.
func (d *fakeSink) do(t testing.TB, v delivery.Delivery) delivery.Report {
	t.Helper()
	d.deliver(t, v)
	r := <-d.reports
	if r.Token != v.Run.Token || r.RunID != v.Run.ID || r.Worker != v.Queue.Address {
		t.Fatalf("the report is of another attempt: %+v", r)
	}
	return r
}

// against delivers once to a handler on a real socket.
func against(t *testing.T, f http.HandlerFunc) delivery.Report {
	t.Helper()
	s := httptest.NewServer(f)
	defer s.Close()
	d := open(t, New(Options{Allow: loopback}))
	return d.do(t, newDelivery(1, s.URL))
}

// pipes is a listener in memory, for synctest bubbles.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	over  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), over: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.over:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.over) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// bubble runs a server and a hub in memory; all of it is gone when f returns.
func bubble(t *testing.T, o Options, handler http.HandlerFunc, f func(*testing.T, *fakeSink)) {
	t.Helper()
	p := newPipes()
	server := &http.Server{ReadHeaderTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // until then the server does not notice that the client has gone
		handler(w, r)
	})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(p) })
	o.Dial = p.dial
	d := open(t, New(o))
	f(t, d)
	if err := d.hub.Close(); err != nil {
		t.Error(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	serving.Wait()
}

// hostOf is the host of a URL.
func hostOf(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ToLower(u.Host)
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

// take takes slots as a partition does.
func (d *fakeSink) take(p int, q delivery.Queue, want int, head delivery.Head) (n int, consumers bool) {
	s := offer(d.hub, p, q, want, head)
	return s.N, s.Served
}

// offer asks for slots of one queue.
func offer(h *dispatch.Hub, p int, q delivery.Queue, want int, head delivery.Head) delivery.Slots {
	lineup := []delivery.Waiting{{Queue: q, N: want, Now: want, Head: head}}
	h.Offer(delivery.Owner{Partition: p}, lineup)
	return lineup[0].Slots
}
