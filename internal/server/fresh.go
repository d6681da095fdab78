package server

import (
	"net"
	"net/http"
	"sync"
)

// fresh tracks the connections of an [http.Server] over which nothing has come yet. When the server shuts
// down it leaves them open for up to 5 s, and if a request comes over one it closes it without an answer: a
// caller that has connected in advance would only notice that the node is gone by losing a call. They are
// closed with the listener instead.
type fresh struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	ended bool
}

// attach makes f track the server's connections.
func (f *fresh) attach(server *http.Server) {
	f.conns = map[net.Conn]struct{}{}
	server.ConnState = f.note
	server.RegisterOnShutdown(f.end)
}

func (f *fresh) note(c net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(f.conns, c)
	case f.ended:
		_ = c.Close() // nothing is lost by it
	default:
		f.conns[c] = struct{}{}
	}
}

func (f *fresh) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	for c := range f.conns {
		_ = c.Close() // as above
	}
}
