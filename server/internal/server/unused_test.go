package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener in memory.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.ended); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestUnusedConnectionsEndWithTheListener: who has connected in advance learns at once that the node is gone.
func TestUnusedConnectionsEndWithTheListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := pipes{make(chan net.Conn), make(chan struct{})}
		d := &listener{name: "http", at: at}
		d.overHTTP(&http.Server{Handler: http.NotFoundHandler()}, slog.New(slog.DiscardHandler))
		served := make(chan error, 1)
		go func() { served <- d.run() }()
		mine, theirs := net.Pipe()
		at.conns <- theirs
		synctest.Wait()
		began := time.Now()
		d.stop(context.Background())
		if _, err := mine.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("got %v, want io.EOF", err)
		}
		if took := time.Since(began); took >= time.Second {
			t.Errorf("the door was ended after %v", took)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
