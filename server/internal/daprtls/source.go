package daprtls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

// poll is how often files are looked at, and whether the identity is due: a change holds within about this
// time.
const poll = time.Second

// ErrNoIdentity is why nobody can connect: the node has no certificate yet, or the last one has ended.
var ErrNoIdentity = errors.New("no identity")

// Source keeps the identity of the listener in force. It is safe for concurrent use.
type Source struct {
	log     *slog.Logger
	domains map[spiffeid.TrustDomain]bool // of clients; empty: all

	mu      sync.Mutex
	svid    *x509svid.SVID     // in force; nil: none yet
	anchors *x509bundle.Bundle // in force; nil: none yet
	err     error              // how the last look ended

	ready  chan struct{} // closed when there is a first identity
	lapsed bool          // it has been logged that the identity has ended; the goroutine's
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
}

// keeper knows where an identity comes from.
type keeper interface {
	// look does what is due, and says what is wrong. One goroutine at a time calls it.
	look(ctx context.Context, s *Source) error
}

func newSource(log *slog.Logger, domains map[spiffeid.TrustDomain]bool) *Source {
	return &Source{log: log, domains: domains, ready: make(chan struct{}), done: make(chan struct{})}
}

// keep looks from now on, until Close.
func (s *Source) keep(k keeper) {
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(s.done)
		tick := time.NewTicker(poll)
		defer tick.Stop()
		for ctx.Err() == nil {
			s.fault(ctx, k.look(ctx, s))
			s.lapse(ctx)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
}

// fault notes how a look ended. A fault is logged once for as long as it stays the same.
func (s *Source) fault(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // what failed because of Close is no fault
	}
	s.mu.Lock()
	before := s.err
	s.err = err
	s.mu.Unlock()
	if err != nil && (before == nil || before.Error() != err.Error()) {
		s.log.WarnContext(ctx, "identity for Dapr's sidecars", "err", err)
	}
}

// lapse logs once that the identity has ended.
func (s *Source) lapse(ctx context.Context) {
	err := s.Err()
	if s.Ready() == nil && err != nil && !s.lapsed {
		s.log.ErrorContext(ctx, "no sidecar can connect any more", "err", err)
	}
	s.lapsed = err != nil
}

// put puts an identity in force, for connections made from now on.
func (s *Source) put(svid *x509svid.SVID) {
	leaf := svid.Certificates[0]
	s.log.Info("identity for Dapr's sidecars", "spiffe_id", svid.ID.String(), "until", leaf.NotAfter.UTC())
	s.mu.Lock()
	first := s.svid == nil
	s.svid = svid
	s.mu.Unlock()
	if first {
		close(s.ready)
	}
}

// trust puts trust anchors in force, and reports whether the identity, if any, still leads up to one of them.
func (s *Source) trust(anchors *x509bundle.Bundle) bool {
	s.mu.Lock()
	s.anchors = anchors
	svid := s.svid
	s.mu.Unlock()
	if svid == nil {
		return true
	}
	_, _, err := x509svid.Verify(svid.Certificates, s)
	return err == nil
}

// Ready is nil once there has been an identity, before that an [ErrNoIdentity] with its cause. It is meant
// for the probes of a node: like Dapr's scheduler it stays ready when its identity ends, since a restart
// would not bring a new one and would cut the connections that there are.
func (s *Source) Ready() error {
	select {
	case <-s.ready:
		return nil
	default:
		return s.Err()
	}
}

// Wait returns when there is a first identity; otherwise, when the context ends or after Close, with why
// there is none yet.
func (s *Source) Wait(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-s.done:
		return s.Ready()
	case <-ctx.Done():
		return errors.Join(ctx.Err(), s.Ready())
	}
}

// Err is why nobody can connect now: nil while an identity is in force, otherwise an [ErrNoIdentity] with its
// cause.
func (s *Source) Err() error {
	_, err := s.GetX509SVID()
	return err
}

// Close ends the goroutine and waits for it. The identity stays in force for as long as its certificate is
// valid.
func (s *Source) Close() {
	s.cancel()
	<-s.done
}

// GetX509SVID is the identity in force.
func (s *Source) GetX509SVID() (*x509svid.SVID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var why error
	if s.svid == nil {
		why = fmt.Errorf("%w yet", ErrNoIdentity)
	} else if end := s.svid.Certificates[0].NotAfter; time.Now().After(end) {
		why = fmt.Errorf("%w: the last certificate ended at %s", ErrNoIdentity, end.UTC().Format(time.RFC3339))
	}
	switch {
	case why == nil:
		return s.svid, nil
	case s.err == nil:
		return nil, why
	}
	return nil, fmt.Errorf("%w: %w", why, s.err)
}

// GetX509BundleForTrustDomain are the trust anchors in force. As in Dapr they vouch for every trust domain.
func (s *Source) GetX509BundleForTrustDomain(spiffeid.TrustDomain) (*x509bundle.Bundle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.anchors == nil {
		return nil, errors.New("no trust anchors yet")
	}
	return s.anchors, nil
}
