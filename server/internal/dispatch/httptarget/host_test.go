package httptarget

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
)

// slots is how many slots of a host are free now; it gives them back.
func (d *fakeSink) slots(q delivery.Queue) int {
	n, _ := d.take(1, q, 1<<20, delivery.Head{})
	d.hub.Deliver(1, nil, []delivery.Rest{{Queue: q, Unused: n}})
	return n
}

func TestSlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var code, after atomic.Int64
		code.Store(200)
		bubble(t, Options{HostLimit: 8}, func(w http.ResponseWriter, _ *http.Request) {
			if s := after.Load(); s > 0 {
				w.Header().Set("Retry-After", strconv.FormatInt(s, 10))
			}
			w.WriteHeader(int(code.Load()))
		}, func(t *testing.T, d *fakeSink) {
			v := newDelivery(1, "http://busy.example.com/")
			expect := func(what string, want int) {
				t.Helper()
				synctest.Wait()
				if n := d.slots(v.Queue); n != want {
					t.Fatalf("%s: %d slots, not %d", what, n, want)
				}
			}
			d.do(t, v)
			expect("after 200", 8)
			code.Store(503)
			d.do(t, v)
			expect("after 503", 0)
			pass(firstPause)
			expect("after the pause", 4)
			d.do(t, v)
			pass(firstPause)
			expect("the second pause is longer", 0)
			pass(firstPause)
			expect("after the second pause", 2)
			code.Store(429)
			after.Store(60)
			if r := d.do(t, v); r.RetryAfter != time.Minute {
				t.Fatalf("%+v", r.Result)
			}
			pass(time.Minute - 1)
			expect("before Retry-After", 0)
			pass(1)
			expect("after Retry-After", 1)
			after.Store(100_000)
			if r := d.do(t, v); r.RetryAfter != MaxRetryAfter {
				t.Fatalf("%+v", r.Result)
			}
			pass(MaxPause)
			expect("never below one, never paused for longer than the limit", 1)
			code.Store(200)
			for limit := 1; limit < 8; limit++ {
				for range limit {
					expect("while it recovers", limit)
					d.do(t, v)
				}
			}
			expect("recovered", 8)
			d.do(t, v)
			expect("and no further", 8)
			code.Store(503)
			after.Store(0)
			d.do(t, v)
			pass(firstPause)
			expect("pauses begin short again", 4)
		})
	})
}

// TestSlowDownTogether has all requests of a burst refused at once: that counts once, and the longest pause
// counts.
func TestSlowDownTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, asked := make(chan struct{}), atomic.Int64{}
		bubble(t, Options{HostLimit: 8}, func(w http.ResponseWriter, _ *http.Request) {
			<-release
			if n := asked.Add(1); n == 1 {
				w.Header().Set("Retry-After", "60")
			} else {
				pass(time.Millisecond)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		}, func(t *testing.T, d *fakeSink) {
			v := newDelivery(0, "http://busy.example.com/")
			for i := range 8 {
				d.deliver(t, newDelivery(i, "http://busy.example.com/"))
			}
			pass(time.Second)
			close(release)
			for range 8 {
				<-d.reports
			}
			for _, want := range []int{0, 4} {
				pass(30 * time.Second)
				synctest.Wait()
				if n := d.slots(v.Queue); n != want {
					t.Fatalf("%d slots, not %d", n, want)
				}
			}
		})
	})
}

// TestLimit tells that no more requests are under way than the host's limit, and that who waits is woken.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		bubble(t, Options{HostLimit: 3}, func(http.ResponseWriter, *http.Request) {
			most.Store(max(most.Load(), now.Add(1)))
			pass(time.Second)
			now.Add(-1)
		}, func(t *testing.T, d *fakeSink) {
			q := newDelivery(0, "http://a.example.com/").Queue
			for i, sent := 0, 0; i < 20; {
				n, _ := d.take(0, q, 20-i-sent, delivery.Head{})
				for range n + sent {
					d.hub.Deliver(0, []delivery.Delivery{newDelivery(i, "http://a.example.com/")}, nil)
					i++
				}
				if i < 20 {
					sent = (<-d.given).n
				}
			}
			for range 20 {
				if r := <-d.reports; r.Outcome != carillon.OutcomeSuccess {
					t.Fatal(r.Message)
				}
			}
			if most.Load() != 3 {
				t.Fatalf("%d at once", most.Load())
			}
		})
	})
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		bubble(t, Options{}, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			close(ended)
		}, func(t *testing.T, d *fakeSink) {
			v := newDelivery(1, "http://a.example.com/")
			d.deliver(t, v)
			synctest.Wait()
			d.hub.Cancel([]delivery.Cancel{{Queue: v.Queue, Token: "another"}, {Queue: v.Queue, Token: v.Run.Token}})
			<-ended
			synctest.Wait()
			if len(d.reports) != 0 || d.hub.Queues()[0] != (dispatch.QueueStats{Queue: v.Queue, Consumers: 1,
				Credits: DefaultHostLimit}) {
				t.Fatalf("%d reports, %+v", len(d.reports), d.hub.Queues())
			}
		})
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble(t, Options{}, func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/never" {
				<-r.Context().Done()
				return
			}
			pass(time.Second)
		}, func(t *testing.T, d *fakeSink) {
			quick, never := newDelivery(1, "http://a.example.com/"), newDelivery(2, "http://a.example.com/never")
			d.deliver(t, quick)
			d.deliver(t, never)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if err := d.hub.Drain(ctx); err == nil {
				t.Error("a request was ended and nobody said so")
			}
			if r := <-d.reports; r.Token != quick.Run.Token || r.Outcome != carillon.OutcomeSuccess {
				t.Errorf("%+v", r.Result)
			}
			if r := <-d.reports; r.Token != never.Run.Token || r.Outcome != 0 || r.Permanent ||
				r.Message != errStopped.Error() {
				t.Errorf("%+v", r.Result)
			}
			d.hub.Deliver(0, []delivery.Delivery{quick}, nil)
			if token := <-d.back; token != quick.Run.Token {
				t.Error(token)
			}
		})
	})
}

func TestDrainOfAnIdleNode(t *testing.T) {
	target := New(Options{})
	d := open(t, target)
	if err := d.hub.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	if target.start(nil, make([]delivery.Delivery, 1)) {
		t.Fatal("a leaving target took a delivery")
	}
}
