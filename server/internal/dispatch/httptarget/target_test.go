package httptarget

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
)

// TestKeptConnectionCloses has a server that hangs up instead of answering, on a new connection and on one
// that was used before: the request was read, so the attempt has failed.
func TestKeptConnectionCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, hangUp := atomic.Int64{}, map[int64]bool{2: true, 3: true}
		bubble(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
			if hangUp[asked.Add(1)] {
				conn, _, _ := http.NewResponseController(w).Hijack()
				_ = conn.Close()
			}
		}, func(t *testing.T, d *fakeSink) {
			for i, want := range []carillon.Outcome{carillon.OutcomeSuccess, carillon.OutcomeFailure,
				carillon.OutcomeFailure, carillon.OutcomeSuccess} {
				if r := d.do(t, newDelivery(i, "http://a.example.com/")); r.Outcome != want || r.Permanent {
					t.Errorf("%d: %+v", i, r.Result)
				}
			}
		})
		if n := asked.Load(); n != 4 {
			t.Errorf("asked %d times", n)
		}
	})
}

// TestKeepAlive tells that connections are used again, also after answers that are longer than what is kept.
func TestKeepAlive(t *testing.T) {
	remotes := map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		remotes[r.RemoteAddr] = true
		_, _ = w.Write(make([]byte, 1<<10*len(remotes)*20))
	}))
	defer s.Close()
	d := open(t, New(Options{Allow: loopback}))
	for i := range 5 {
		if r := d.do(t, newDelivery(i, s.URL)); r.Outcome != carillon.OutcomeSuccess {
			t.Fatal(r.Message)
		}
	}
	if len(remotes) != 1 {
		t.Fatalf("%d connections", len(remotes))
	}
}

// BenchmarkHTTP measures callbacks to a trivial server in the same process (goal P9: 15,000/s on 2 cores,
// both sides).
func BenchmarkHTTP(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()

	d := &fakeSink{reports: make(chan delivery.Report, 1<<12), given: make(chan sent, 1<<12),
		back: make(chan string, 1)}
	d.hub = dispatch.New(d, dispatch.Options{Transports: map[string]dispatch.Transport{"http": New(Options{Allow: loopback})}})
	defer d.hub.Close()
	v := newDelivery(0, "http://"+l.Addr().String()+"/run")
	v.Run.Data.Bytes = make([]byte, 256)
	runs := make([]delivery.Delivery, b.N)
	for i := range runs {
		runs[i] = v
		runs[i].Run.Token = newDelivery(i, "").Run.Token
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu(b)
	go func() {
		for sent := 0; len(runs) > 0; {
			n, _ := d.take(0, v.Queue, min(len(runs), 64)-sent, delivery.Head{})
			n += sent
			d.hub.Deliver(0, runs[:n], nil)
			if runs, sent = runs[n:], 0; n == 0 {
				sent = (<-d.given).n
			}
		}
	}()
	for range b.N {
		if r := <-d.reports; r.Outcome == 0 {
			b.Fatal(r.Message)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "callbacks/s")
	b.ReportMetric((cpu(b)-before).Seconds()*1e6/float64(b.N), "cpu-µs/op")
}

// cpu is the processor time that this process has used: steadier than a rate on a shared machine.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
