package httptarget

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

func TestStatus(t *testing.T) {
	permanent := map[int]bool{400: true, 410: true, 413: true, 415: true, 422: true}
	for code := 200; code <= 599; code++ {
		w := httptest.NewRecorder()
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(code)
		r, slow := judge(w.Result(), time.Now())
		want := delivery.Report{Result: carillon.Result{Permanent: permanent[code]}, PauseJob: code == 410}
		if code/100 == 2 {
			want.Outcome = carillon.OutcomeSuccess
		} else if !want.Permanent {
			want.RetryAfter = 7 * time.Second
		}
		if (r.Message == "") != (code/100 == 2) || slow != (code == 429 || code == 503) {
			t.Errorf("%d: %q, slow %v", code, r.Message, slow)
		}
		if r.Message = ""; r.Outcome != want.Outcome || r.Permanent != want.Permanent ||
			r.PauseJob != want.PauseJob ||
			r.RetryAfter != want.RetryAfter || r.Async {
			t.Errorf("%d: %+v", code, r)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "120": 2 * time.Minute, "-5": 0, "soon": 0, "1.5": 0, "99999999": MaxRetryAfter,
		"99999999999999999999999": MaxRetryAfter, "Sat, 21 Nov 2026 12:00:30 GMT": 30 * time.Second,
		"Sat, 21 Nov 2026 11:00:00 GMT": 0, "Saturday, 21-Nov-26 12:01:00 GMT": time.Minute,
		"Sat, 21 Nov 2099 12:00:30 GMT": MaxRetryAfter,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %v, not %v", text, got, want)
		}
	}
}

func TestDone(t *testing.T) {
	r := against(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write([]byte(r.Method + " " + string(body)))
	})
	if r.Outcome != carillon.OutcomeSuccess || r.Async || string(r.Response) != `POST "x"` {
		t.Fatalf("%+v", r)
	}
}

func TestAsync(t *testing.T) {
	for header, async := range map[string]bool{"1": true, "": false, "true": false} {
		r := against(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Carillon-Async", header)
			w.WriteHeader(http.StatusAccepted)
		})
		if r.Outcome != carillon.OutcomeSuccess || r.Async != async {
			t.Errorf("%q: %+v", header, r)
		}
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	asked := 0
	r := against(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	if asked != 1 || r.Outcome != 0 || r.Permanent || !strings.Contains(r.Message, "not followed") {
		t.Fatalf("asked %d times: %+v", asked, r.Result)
	}
}

func TestHostileAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer string // raw
		want   string // of the message; "" = done
	}{
		"garbage":       {"SSH-2.0-OpenSSH\r\n", "connection: "},
		"nothing":       {"", "connection: "},
		"half a header": {"HTTP/1.1 200 OK\r\nContent-Le", "connection: "},
		"huge header": {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*MaxResponseHeader) + "\r\n\r\n",
			"connection: "},
		"truncated body": {"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc", ""},
		"bad chunks":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n", ""},
		"switching": {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
			"101 Switching Protocols"},
		"status 099":      {"HTTP/1.1 099 What\r\nContent-Length: 0\r\n\r\n", "99 "},
		"bomb unexpanded": {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := rawly(t, Options{}, nil, func(conn net.Conn) { _, _ = io.WriteString(conn, c.answer) })
			if strings.Contains(c.answer, "gzip") && string(r.Response) != "abc" {
				t.Fatalf("kept %q", r.Response)
			}
			if c.want == "" && r.Outcome != carillon.OutcomeSuccess {
				t.Fatalf("%+v", r.Result)
			}
			if c.want != "" && (r.Outcome == carillon.OutcomeSuccess || r.Permanent ||
				!strings.HasPrefix(r.Message, c.want)) {
				t.Fatalf("%+v", r.Result)
			}
		})
	}
}

// rawly delivers once to a server that reads a request and answers as it likes.
func rawly(t *testing.T, o Options, headers map[string]string, answer func(net.Conn)) delivery.Report {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				answer(conn)
			}
			_ = conn.Close()
		}
	}()
	o.Allow = loopback
	d := open(t, New(o))
	v := newDelivery(1, "http://"+l.Addr().String()+"/")
	v.Target.HTTP.Headers = headers
	r := d.do(t, v)
	_ = l.Close()
	<-served
	return r
}

func TestReset(t *testing.T) {
	r := rawly(t, Options{}, nil, func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) })
	if r.Outcome != 0 || r.Permanent || !strings.HasPrefix(r.Message, "connection: ") {
		t.Fatalf("%+v", r.Result)
	}
}

func TestEndlessBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := make(chan int, 1)
		bubble(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
			for sum := 0; ; {
				n, err := w.Write(make([]byte, 1<<10))
				if sum += n; err != nil {
					written <- sum
					return
				}
			}
		}, func(t *testing.T, d *fakeSink) {
			start := time.Now()
			r := d.do(t, newDelivery(1, "http://endless.example.com/"))
			if r.Outcome != carillon.OutcomeSuccess || len(r.Response) != carillon.MaxResponse ||
				!time.Now().Equal(start) {
				t.Fatalf("%v, kept %d bytes", r.Outcome, len(r.Response))
			}
		})
		if n := <-written; n > 2*MaxResponseRead {
			t.Fatalf("%d bytes were sent", n)
		}
	})
}

func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("begun"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, func(t *testing.T, d *fakeSink) {
			start := time.Now()
			r := d.do(t, newDelivery(1, "http://slow.example.com/"))
			if r.Outcome != carillon.OutcomeSuccess || string(r.Response) != "begun" ||
				time.Since(start) != BodyTimeout {
				t.Fatalf("%+v after %v", r.Result, time.Since(start))
			}
		})
	})
}

// TestSwitching has a server that turns the connection into one without requests and says nothing more.
func TestSwitching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}, func(t *testing.T, d *fakeSink) {
			if r := d.do(t, newDelivery(1, "http://switching.example.com/")); r.Outcome != 0 ||
				!strings.HasPrefix(r.Message, "101 ") {
				t.Fatalf("%+v", r.Result)
			}
		})
	})
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble(t, Options{}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			func(t *testing.T, d *fakeSink) {
				start := time.Now()
				r := d.do(t, newDelivery(1, "http://slow.example.com/"))
				if r.Outcome != 0 || r.Permanent ||
					!strings.HasPrefix(r.Message, "timeout: no answer within 1m") || time.Since(start) != time.Minute {
					t.Fatalf("%+v after %v", r.Result, time.Since(start))
				}
			})
	})
}

// TestNothingIsLearntOfTheNetwork looks for the addresses of both ends and of the resolver in what a job's
// owner is told.
func TestNothingIsLearntOfTheNetwork(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close() // with a reset
		}
	}()
	_, open1, _ := net.SplitHostPort(l.Addr().String())
	gone := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "udp",
			Addr: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 53), Port: 53}, Err: syscall.ECONNREFUSED}
	}}
	for name, o := range map[string]Options{
		"refused": {Resolver: names(t, "127.0.0.1")}, "reset": {Resolver: names(t, "127.0.0.1"), Allow: loopback},
		"no resolver": {Resolver: gone},
	} {
		for _, scheme := range []string{"http", "https"} {
			for _, port := range []string{open1, "1"} {
				r := open(t, New(o)).do(t, newDelivery(1, scheme+"://x.example.com:"+port+"/"))
				if r.Message == "" || strings.Contains(r.Message, "127.0.0") || strings.Contains(r.Message, "loopback") {
					t.Errorf("%s: %s", name, r.Message)
				}
			}
		}
	}
}
