package link

import (
	"net"
	"sync"
	"time"
)

// pair is a connection and the one that it is passed on by.
type pair struct {
	link *Link
	from string
	near net.Conn

	mu    sync.Mutex
	far   net.Conn
	ended chan struct{} // closed by reset
	over  bool
}

// reach notes the connection to the target; false: it came too late, and is closed.
func (p *pair) reach(far net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.far = far
	if p.over {
		_ = far.Close() // nothing was sent
	}
	return !p.over
}

// reset ends both connections without a goodbye.
func (p *pair) reset() { p.close(true) }

// close ends both connections.
func (p *pair) close(hard bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	p.over = true
	close(p.ended)
	for _, c := range []net.Conn{p.near, p.far} {
		if tcp, ok := c.(*net.TCPConn); ok {
			if hard {
				_ = tcp.SetLinger(0) // one that is closed already is as good
			}
			_ = tcp.Close() // same
		}
	}
}

// pass lets both directions flow until both have ended.
func (p *pair) pass() {
	var both sync.WaitGroup
	both.Go(func() { p.flow(p.near, p.far, There) })
	both.Go(func() { p.flow(p.far, p.near, Back) })
	both.Wait()
	p.close(false)
}

// What is on its way in one direction, at most: chunks × chunkBytes.
const (
	chunkBytes = 32 << 10
	chunks     = 64
)

// chunk is some bytes on their way.
type chunk struct {
	at   time.Time // of arrival
	data []byte
	end  bool // there is no more
}

// flow passes on what one side sends until it says that it has no more.
func (p *pair) flow(src, dst net.Conn, w Way) {
	way := make(chan chunk, chunks)
	var writer sync.WaitGroup
	writer.Go(func() { p.deliver(dst, way, w) })
	buf := make([]byte, chunkBytes)
	for {
		n, err := src.Read(buf)
		p.link.mu.Lock()
		at := time.Now().Add(p.link.delay)
		p.link.mu.Unlock()
		c := chunk{at: at, data: append([]byte(nil), buf[:n]...), end: err != nil}
		select {
		case way <- c:
		case <-p.ended:
			c.end = true
		}
		if c.end {
			break
		}
	}
	close(way)
	writer.Wait()
}

// deliver writes what arrives, each at its time and while nothing is wrong.
func (p *pair) deliver(dst net.Conn, way <-chan chunk, w Way) {
	clock := time.NewTimer(0)
	defer clock.Stop()
	for c := range way {
		if d := time.Until(c.at); d > 0 {
			clock.Reset(d)
			select {
			case <-clock.C:
			case <-p.ended:
				return
			}
		}
		if !p.link.await(p.from, p.ended, w) {
			p.reset()
			return
		}
		if _, err := dst.Write(c.data); err != nil {
			p.reset()
			return
		}
		if tcp, ok := dst.(*net.TCPConn); ok && c.end {
			_ = tcp.CloseWrite() // the other side is gone, or hears that there is no more
		}
	}
}
