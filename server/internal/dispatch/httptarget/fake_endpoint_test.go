package httptarget

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/carillonhq/carillon"
)

// endpoint is a server of HTTP/1.1 on a real socket. It counts the requests that it has read whole, and then
// either answers or breaks the connection.
type endpoint struct {
	listener  net.Listener
	scheme    string
	breakConn func(net.Conn) // how a connection is broken
	read      atomic.Int64
	accepted  atomic.Int64
	serving   sync.WaitGroup

	mu      sync.Mutex
	answers func() bool // whether a request is answered
	conns   map[net.Conn]bool
}

// newEndpoint begins to serve until the test ends, over TLS if there is a configuration.
func newEndpoint(t *testing.T, secure *tls.Config, breaks func(net.Conn)) *endpoint {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &endpoint{listener: l, scheme: "http", breakConn: breaks, answers: always, conns: map[net.Conn]bool{}}
	if secure != nil {
		e.listener, e.scheme = tls.NewListener(l, secure), "https"
	}
	e.serving.Go(func() {
		for {
			c, err := e.listener.Accept()
			if err != nil {
				return
			}
			e.accepted.Add(1)
			e.mu.Lock()
			e.conns[c] = true
			e.mu.Unlock()
			e.serving.Go(func() { e.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		e.mu.Lock()
		for c := range e.conns {
			_ = c.Close()
		}
		e.mu.Unlock()
		e.serving.Wait()
	})
	return e
}

func always() bool { return true }

func never() bool { return false }

func (e *endpoint) url() string { return e.scheme + "://" + e.listener.Addr().String() + "/" }

func (e *endpoint) serve(c net.Conn) {
	defer func() {
		e.mu.Lock()
		delete(e.conns, c)
		e.mu.Unlock()
		_ = c.Close()
	}()
	in := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		e.read.Add(1)
		e.mu.Lock()
		answers := e.answers
		e.mu.Unlock()
		if !answers() {
			e.breakConn(c)
			return
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

// from now on requests are answered or not.
func (e *endpoint) setAnswers(answers func() bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answers = answers
}

// openConns opens n connections and leaves them idle.
func (e *endpoint) openConns(t *testing.T, d *fakeSink, n int) {
	t.Helper()
	gate, in := make(chan struct{}), make(chan struct{}, n)
	e.setAnswers(func() bool { in <- struct{}{}; <-gate; return true })
	for i := range n {
		d.deliver(t, newDelivery(1000+i, e.url()))
	}
	for range n {
		<-in
	}
	close(gate)
	for range n {
		if r := <-d.reports; r.Outcome != carillon.OutcomeSuccess {
			t.Fatalf("%+v", r.Result)
		}
	}
	if got := e.accepted.Load(); got != int64(n) {
		t.Fatalf("%d connections are open, not %d", got, n)
	}
	e.read.Store(0)
}

// The ways in which an endpoint breaks a connection of which it has read a request.
var waysToBreak = map[string]func(net.Conn){
	"closed": func(net.Conn) {},
	"reset": func(c net.Conn) {
		if secure, ok := c.(*tls.Conn); ok {
			c = secure.NetConn()
		}
		_ = c.(*net.TCPConn).SetLinger(0)
	},
	"half an answer": func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Le") },
}

// certified is the configuration of a server with a certificate and that of a client that trusts it.
func certified(t *testing.T, protocols ...string) (server, client *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: s.TLS.Certificates, NextProtos: protocols},
		&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
}
