package sim

import (
	"context"
	"net"
	"sync"
	"time"
)

// gate stands between a node and everything else. While it is shut the node stands still, as under SIGSTOP:
// nothing that it does gets out, nothing that it waits for gets in, and its lanes do not turn. When it opens
// all of it goes on, late.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // closed when it opens; nil = it is open
}

// close shuts the gate; what it returns opens it.
func (g *gate) close() (open func()) {
	shut := make(chan struct{})
	g.mu.Lock()
	g.shut = shut
	g.mu.Unlock()
	return func() {
		g.mu.Lock()
		g.shut = nil
		g.mu.Unlock()
		close(shut)
	}
}

// closed is what opens with the gate, nil if it is open.
func (g *gate) closed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut
}

// wait returns when the gate is open.
func (g *gate) wait() {
	for shut := g.closed(); shut != nil; shut = g.closed() {
		<-shut
	}
}

// reach is wait, or the error of ctx if that ends before.
func (g *gate) reach(ctx context.Context) error {
	for shut := g.closed(); shut != nil; shut = g.closed() {
		select {
		case <-shut:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// gatedConn is a node's connection to an endpoint.
type gatedConn struct {
	net.Conn
	gate *gate
}

// Read is for [net.Conn].
func (c gatedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.gate.wait()
	return n, err
}

// Write is for [net.Conn].
func (c gatedConn) Write(p []byte) (int, error) {
	c.gate.wait()
	return c.Conn.Write(p)
}

// hang passes time until ctx ends, or d has passed.
func hang(ctx context.Context, actor int, d time.Duration) {
	t := time.NewTimer(aligned(actor, d))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
