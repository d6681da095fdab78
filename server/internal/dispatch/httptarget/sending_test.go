package httptarget

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

// TestOneRequestPerAttempt has 100 idle connections to an endpoint that breaks each one after it has read a
// request: an attempt is one request whatever its method and body, because each of them may have been acted
// upon.
func TestOneRequestPerAttempt(t *testing.T) {
	secure, trusting := certified(t, "http/1.1")
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS"} {
		for way, breaks := range waysToBreak {
			for _, body := range []string{"", "x"} {
				t.Run(fmt.Sprintf("%s %q %s", method, body, way), func(t *testing.T) {
					e := newEndpoint(t, nil, breaks)
					d := open(t, New(Options{Allow: loopback}))
					onceOnly(t, e, d, 100, method, body)
				})
			}
		}
	}
	for way, breaks := range waysToBreak {
		t.Run("TLS "+way, func(t *testing.T) {
			e := newEndpoint(t, secure, breaks)
			d := open(t, New(Options{Allow: loopback, TLS: trusting}))
			onceOnly(t, e, d, 20, "POST", "x")
		})
	}
}

// onceOnly delivers one attempt to an endpoint that breaks every connection.
func onceOnly(t *testing.T, e *endpoint, d *fakeSink, idle int, method, body string) {
	t.Helper()
	e.openConns(t, d, idle)
	e.setAnswers(never)
	v := newDelivery(1, e.url())
	v.Target.HTTP.Method, v.Run.Data.Bytes = method, []byte(body)
	r := d.do(t, v)
	if n := e.read.Load(); n != 1 || r.Outcome != 0 || r.Permanent {
		t.Fatalf("%d requests for one attempt: %+v", n, r.Result)
	}
}

// network is a dialler in memory whose connections break as a test says.
type faultyNetwork struct {
	pipes *pipes
	fault func() writeFault // of the next write

	mu    sync.Mutex
	dials int
}

// writeFault is what happens to a write.
type writeFault int

const (
	passes         writeFault = iota
	nothing                   // it fails, and nothing has left
	some                      // it fails, and the first bytes have left
	hangsUp                   // it passes, and the connection breaks before the answer
	numWriteFaults = iota
)

// faultyConn is a connection of a faultyNetwork.
type faultyConn struct {
	net.Conn
	net *faultyNetwork
}

func (n *faultyNetwork) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := n.pipes.dial(ctx, network, address)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials++
	return &faultyConn{c, n}, err
}

// Write implements [net.Conn].
func (c *faultyConn) Write(p []byte) (int, error) {
	switch c.net.fault() {
	case nothing:
		return 0, syscall.ECONNRESET
	case some:
		n, err := c.Conn.Write(p[:len(p)/2])
		return n, errors.Join(err, syscall.ECONNRESET)
	case hangsUp:
		n, err := c.Conn.Write(p)
		_ = c.Conn.Close()
		return n, err
	}
	return c.Conn.Write(p)
}

// overNetwork runs a server that counts requests by token, and a hub whose connections break.
func overNetwork(t *testing.T, f func(t *testing.T, d *fakeSink, n *faultyNetwork),
	handler http.HandlerFunc) {
	t.Helper()
	n := &faultyNetwork{pipes: newPipes(), fault: func() writeFault { return passes }}
	server := &http.Server{ReadHeaderTimeout: time.Hour, Handler: handler}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(n.pipes) })
	d := open(t, New(Options{Dial: n.dial}))
	defer func() {
		_ = d.hub.Close()
		_ = server.Close()
		serving.Wait()
	}()
	f(t, d, n)
}

// TestUnwrittenGoesToAnotherConn has idle connections that take nothing any more: the attempt is written to
// the next one and nobody notices.
func TestUnwrittenGoesToAnotherConn(t *testing.T) {
	for _, method := range []string{"POST", "GET"} {
		for _, body := range []string{"", "x"} {
			t.Run(method+" "+body, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var asked atomic.Int64
					gate := make(chan struct{})
					overNetwork(t, func(t *testing.T, d *fakeSink, n *faultyNetwork) {
						v := newDelivery(1, "http://a.example.com/")
						v.Target.HTTP.Method, v.Run.Data.Bytes = method, []byte(body)
						for i := range 10 {
							d.deliver(t, newDelivery(100+i, "http://a.example.com/"))
						}
						synctest.Wait()
						close(gate)
						for range 10 {
							<-d.reports
						}
						left := 10
						n.fault = func() writeFault {
							if left--; left < 0 {
								return passes
							}
							return nothing
						}
						if r := d.do(t, v); r.Outcome != carillon.OutcomeSuccess {
							t.Errorf("%+v", r.Result)
						}
						if n.dials != 11 || asked.Load() != 11 {
							t.Errorf("%d connections, %d requests", n.dials, asked.Load())
						}
					}, func(http.ResponseWriter, *http.Request) {
						asked.Add(1)
						<-gate
					})
				})
			})
		}
	}
}

// TestRequestsWithinAttempts breaks connections at random: the endpoint never sees more requests than
// attempts were made.
func TestRequestsWithinAttempts(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex // of random and seen, which the endpoint's goroutines use too
			random := rand.New(rand.NewPCG(seed, 1))
			draw := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return random.IntN(n)
			}
			attempts, seen := map[string]int{}, map[string]int{}
			overNetwork(t, func(t *testing.T, d *fakeSink, n *faultyNetwork) {
				n.fault = func() writeFault {
					if draw(3) > 0 {
						return passes
					}
					return writeFault(draw(numWriteFaults))
				}
				methods := []string{"POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS"}
				for range 20 {
					batch := 1 + draw(8)
					for range batch {
						v := newDelivery(len(attempts), "http://a.example.com/")
						v.Target.HTTP.Method = methods[draw(len(methods))]
						v.Run.Data.Bytes = bytes.Repeat([]byte("x"), draw(3)*4000)
						attempts[v.Run.Token]++
						d.deliver(t, v)
					}
					for range batch {
						<-d.reports
					}
				}
			}, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				seen[r.Header.Get("Carillon-Token")]++
				mu.Unlock()
				if draw(5) == 0 {
					panic(http.ErrAbortHandler)
				}
			})
			mu.Lock()
			defer mu.Unlock()
			for token, n := range seen {
				if n > attempts[token] {
					t.Fatalf("seed %d: %s: %d requests, %d attempts", seed, token, n, attempts[token])
				}
			}
			if len(seen) == 0 {
				t.Fatal("nothing arrived")
			}
		})
	}
}

// TestKeepAliveOfTheTarget has a target that says how long it keeps connections: they are not used towards
// that end, when a request would cross with the close.
func TestKeepAliveOfTheTarget(t *testing.T) {
	for header, want := range map[string]int{
		"timeout=5": 2, "timeout=5, max=100": 2, "max=100,  Timeout=5": 2, "": 1, "timeout=60": 1,
		"timeout=x": 1, "max=5": 1, "timeout=0": 2, "timeout=99999999999999999999": 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			overNetwork(t, func(t *testing.T, d *fakeSink, n *faultyNetwork) {
				for i := range 3 {
					if r := d.do(t, newDelivery(i, "http://a.example.com/")); r.Outcome != carillon.OutcomeSuccess {
						t.Errorf("%+v", r.Result)
					}
					pass([]time.Duration{0, 4 * time.Second, 0}[i])
				}
				if header == "timeout=0" {
					n.dials-- // each time
				}
				if n.dials != want {
					t.Errorf("%q: %d connections, not %d", header, n.dials, want)
				}
			}, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Keep-Alive", header) })
		})
	}
}
