package daprapi

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/carillonhq/carillon/server/internal/dispatch/sidecar"
)

// A sidecar that hears where the schedulers are closes its streams to all of them at once, and connects
// again. It abandons what it has not answered by then: the app may have been called, and the run is delivered
// again. So before the first message of WatchHosts all nodes let the sidecar's streams settle:
//
//	WatchHosts begins ─► all nodes hold the sidecar's streams ─► it has answered ─► told ─► it connects again
//	                                     └─ settleFor at most ─┘          └─ settleClose: those left get runs again
//
// That is the only moment that matters. A later message only has it ask a node again, as does the end of the
// call. It looks for one as long as it takes, and keeps its streams meanwhile. It is known by where its
// connections come from. Others may be behind the same address, and each that asks again holds the streams of
// all. So after settleMost no hold goes on, and none begins again for settleRest.
const (
	settleFor   = time.Second
	settleClose = time.Second
	settleMost  = 4 * time.Second
	settleRest  = 10 * time.Second
)

// streams are the streams of sidecars that are open at this node.
type streams struct {
	mu   sync.Mutex
	open map[*sidecar.Session]string // and where they come from
	held map[string]*hold            // by where they come from
}

// hold is the streams of a sidecar that is about to close them.
type hold struct {
	sessions map[*sidecar.Session]bool
	settling int         // calls of settle for which it was not told yet
	end      *time.Timer // has those that are left get runs again, or ends the rest
	began    time.Time
	rests    bool // it has ended, and the address is not held
}

func newStreams() *streams {
	return &streams{open: map[*sidecar.Session]string{}, held: map[string]*hold{}}
}

// add adds a sidecar's session until remove is called. One that begins before its sidecar is told is held.
func (s *streams) add(session *sidecar.Session, from string) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[session] = from
	if h := s.held[from]; h != nil && h.settling > 0 && !h.rests {
		session.Hold()
		h.sessions[session] = true
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, session)
		if h := s.held[from]; h != nil {
			delete(h.sessions, session)
		}
	}
}

// settle holds the streams of a sidecar. It returns when the sidecar has answered what it has, but after
// settleFor at the latest; or told: it closes them now. It is a [cluster.Settler].
func (s *streams) settle(ctx context.Context, from string, told bool) {
	if told {
		s.told(from)
		return
	}
	late := time.NewTimer(settleFor)
	defer late.Stop()
	for _, settled := range s.hold(from) {
		select {
		case <-settled:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// hold holds the streams of a sidecar, and those that it opens before it is told.
func (s *streams) hold(from string) (settled []<-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[from]
	switch {
	case h == nil:
		h = &hold{sessions: map[*sidecar.Session]bool{}, began: time.Now()}
		s.held[from] = h
	case h.rests || time.Since(h.began) >= settleMost:
		return nil
	default:
		h.end.Stop()
	}
	h.settling++
	s.endAfter(from, h, settleFor+settleClose)
	for session, at := range s.open {
		if at == from {
			h.sessions[session] = true
			settled = append(settled, session.Hold())
		}
	}
	return settled
}

// told ends one call of settle: streams that the sidecar opens from here on last.
func (s *streams) told(from string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[from]
	if h == nil || h.settling == 0 || h.rests {
		return // the hold has ended: the word came late
	}
	if h.settling--; h.settling == 0 {
		h.end.Stop()
		s.endAfter(from, h, settleClose)
	}
}

// endAfter ends a hold after d. The caller has the lock.
func (s *streams) endAfter(from string, h *hold, d time.Duration) {
	var end *time.Timer
	end = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if h.end != end {
			return // the hold goes on
		}
		for session := range h.sessions {
			session.Resume()
		}
		if h.rests || time.Since(h.began) < settleMost {
			delete(s.held, from)
			return
		}
		h.rests = true
		clear(h.sessions)
		s.endAfter(from, h, settleRest)
	})
	h.end = end
}

// settleAll has the streams of a sidecar settle on all nodes, and then has them know that it is told.
func (s *Service) settleAll(ctx context.Context, from string) {
	ctx, cancel := context.WithTimeout(ctx, settleFor)
	defer cancel()
	s.all(ctx, from, false)
	told, cancel := context.WithTimeout(context.WithoutCancel(ctx), toldWithin)
	defer cancel()
	s.all(told, from, true)
}

// toldWithin is how long the nodes may take to hear that a sidecar is told.
const toldWithin = 100 * time.Millisecond

// where is what the connections of one sidecar have in common: the address that they come from, and the name
// in its certificate, if there is one.
func where(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil {
		host = p.Addr.String() // a connection in memory has no port
	}
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && info.SPIFFEID != nil {
		return host + " " + info.SPIFFEID.String()
	}
	return host
}
