package server

import (
	"net"
	"net/http"
	"sync"
)

// unusedConns tracks the connections of an [http.Server] over which nothing has come yet. When the server
// shuts down it leaves them open for up to 5 s, and if a request comes over one it closes it without an
// answer: a caller that has connected in advance would only notice that the node is gone by losing a call.
// They are closed with the listener instead.
type unusedConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	ended bool
}

// attach makes u track the server's connections.
func (u *unusedConns) attach(server *http.Server) {
	u.conns = map[net.Conn]struct{}{}
	server.ConnState = u.note
	server.RegisterOnShutdown(u.end)
}

func (u *unusedConns) note(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(u.conns, c)
	case u.ended:
		_ = c.Close() // nothing is lost by it
	default:
		u.conns[c] = struct{}{}
	}
}

func (u *unusedConns) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	for c := range u.conns {
		_ = c.Close() // as above
	}
}
