package httptarget

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
)

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	d := open(t, New(Options{Allow: loopback}))
	if r := d.do(t, newDelivery(1, "http://"+address+"/")); r.Permanent ||
		!strings.HasPrefix(r.Message, "connect: ") {
		t.Errorf("%+v", r.Result)
	}
}

func TestNoSuchName(t *testing.T) {
	d := open(t, New(Options{Resolver: names(t, "127.0.0.1")}))
	if r := d.do(t, newDelivery(1, "http://bad..name/")); r.Permanent ||
		!strings.HasPrefix(r.Message, "DNS: bad..name: ") {
		t.Errorf("%+v", r.Result)
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.Proto))
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	defer s.Close()
	trusting := s.Client().Transport.(*http.Transport).TLSClientConfig
	d := open(t, New(Options{Allow: loopback, TLS: trusting}))
	if r := d.do(t, newDelivery(1, s.URL)); r.Outcome != carillon.OutcomeSuccess ||
		string(r.Response) != "HTTP/2.0" {
		t.Errorf("%+v", r.Result)
	}
	d = open(t, New(Options{Allow: loopback}))
	if r := d.do(t, newDelivery(1, s.URL)); r.Permanent || !strings.HasPrefix(r.Message, "TLS: ") {
		t.Errorf("%+v", r.Result)
	}
	plain := httptest.NewServer(nil)
	defer plain.Close()
	d = open(t, New(Options{Allow: loopback}))
	if r := d.do(t, newDelivery(1, "https://"+hostOf(t, plain.URL))); !strings.HasPrefix(r.Message, "TLS: ") {
		t.Errorf("%+v", r.Result)
	}
}

// TestOldTLS has a server that speaks nothing newer than TLS 1.1, and a configuration that would take that.
func TestOldTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	s.StartTLS()
	defer s.Close()
	conf := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	conf.MinVersion = tls.VersionTLS10
	d := open(t, New(Options{Allow: loopback, TLS: conf}))
	if r := d.do(t, newDelivery(1, s.URL)); r.Outcome != 0 || !strings.HasPrefix(r.Message, "TLS: ") {
		t.Errorf("%+v", r.Result)
	}
}

// TestNoProxy tells that the environment has no say.
func TestNoProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	if target := New(Options{}); target.client.Proxy != nil {
		t.Fatal("there is a proxy")
	}
}
