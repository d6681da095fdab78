package brokertarget

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// Set is the brokers that a node knows, by name. Its methods may be called from any goroutine.
type Set struct {
	kinds map[string]broker.New

	mu      sync.Mutex
	brokers map[string]*entry
	changed []func() // called when the brokers have changed
	closed  bool
	closing sync.WaitGroup // of clients whose settings have changed
}

// Broker is a broker's settings, with a text that is another one when they are others.
type Broker struct {
	broker.Settings
	Print string
}

// entry is a broker whose client is open.
type entry struct {
	Broker
	client   broker.Client
	payloads *budget

	mu      sync.Mutex
	users   int
	retired bool
	unused  chan struct{} // closed when retired and without users
}

// NewSet returns an empty set of brokers of these kinds.
func NewSet(kinds map[string]broker.New) *Set {
	return &Set{kinds: kinds, brokers: map[string]*entry{}}
}

// Kinds are the kinds of brokers that the set can have, sorted.
func (s *Set) Kinds() []string { return slices.Sorted(maps.Keys(s.kinds)) }

// Has reports whether the set can have brokers of a kind.
func (s *Set) Has(kind string) bool { return s.kinds[kind] != nil }

// Apply puts brokers in place of those before. Clients of brokers that have not changed live on; the others
// are closed when what they have under way has ended. If one cannot be made, nothing changes.
func (s *Set) Apply(brokers map[string]Broker) error {
	changed, err := s.replace(brokers)
	for _, f := range changed {
		f()
	}
	return err
}

// replace is Apply; it returns whom to tell.
func (s *Set) replace(brokers map[string]Broker) (changed []func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the node ends")
	}
	next := make(map[string]*entry, len(brokers))
	var made []*entry
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(brokers)) {
		b := brokers[name]
		if old := s.brokers[name]; old != nil && old.Kind == b.Kind && old.Print == b.Print {
			next[name] = old
			continue
		}
		e, err := s.open(b)
		if err != nil {
			faults = append(faults, fmt.Errorf("brokers.%s: %w", name, err))
			continue
		}
		next[name] = e
		made = append(made, e)
	}
	if len(faults) > 0 {
		for _, e := range made {
			faults = append(faults, e.client.Close())
		}
		return nil, errors.Join(faults...)
	}
	for name, old := range s.brokers {
		if next[name] != old {
			old.retire()
			s.closing.Go(func() {
				<-old.unused
				_ = old.client.Close() // nothing was under way
			})
		}
	}
	s.brokers = next
	return slices.Clone(s.changed), nil
}

func (s *Set) open(b Broker) (*entry, error) {
	create := s.kinds[b.Kind]
	if create == nil {
		return nil, fmt.Errorf("kind: %s is not supported yet; this build knows %s", b.Kind,
			strings.Join(s.Kinds(), ", "))
	}
	c, err := create(b.Settings)
	if err != nil {
		return nil, err
	}
	return &entry{Broker: b, client: c, payloads: newBudget(payloadsPerBroker), unused: make(chan struct{})}, nil
}

// Close ends the clients. The transports must have been closed.
func (s *Set) Close() error {
	s.mu.Lock()
	brokers := s.brokers
	s.brokers, s.closed = map[string]*entry{}, true
	s.mu.Unlock()
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(brokers)) {
		if err := brokers[name].client.Close(); err != nil {
			faults = append(faults, fmt.Errorf("broker %s: %w", name, err))
		}
	}
	s.closing.Wait()
	return errors.Join(faults...)
}

// acquire returns a broker of a kind, which its user is to release; or why there is none.
func (s *Set) acquire(kind, name string) (*entry, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.brokers[name]
	if e == nil || e.Kind != kind {
		return nil, s.unknown(kind, name)
	}
	e.retain()
	return e, ""
}

// unknown says that there is no such broker; s.mu is held.
func (s *Set) unknown(kind, name string) string {
	if e := s.brokers[name]; e != nil {
		return fmt.Sprintf("broker %q of this node is of kind %s, not %s", name, e.Kind, kind)
	}
	var known []string
	for n, e := range s.brokers {
		if e.Kind == kind {
			known = append(known, n)
		}
	}
	if len(known) == 0 {
		return fmt.Sprintf("this node has no broker %.64q, and none of kind %s (serve --brokers); runs wait until it has",
			name, kind)
	}
	slices.Sort(known)
	return fmt.Sprintf("this node has no broker %.64q of kind %s, only %s (serve --brokers); runs wait until it has",
		name, kind, strings.Join(known, ", "))
}

// refuses returns why there is no broker of a kind by this name; "" if there is one.
func (s *Set) refuses(kind, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.brokers[name]; e != nil && e.Kind == kind {
		return ""
	}
	return s.unknown(kind, name)
}

// inFlight is the most messages in flight of a queue of a broker.
func (s *Set) inFlight(kind, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.brokers[name]; e != nil && e.Kind == kind {
		return e.InFlight
	}
	return 1
}

// mostAwaited is how many attempts of a queue of a broker may await their completion. Nothing is sent to a
// broker that is not there.
func (s *Set) mostAwaited(kind, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.brokers[name]; e != nil && e.Kind == kind && e.Awaiting > 0 {
		return e.Awaiting
	}
	return DefaultAwaiting
}

// onChange has f called after each change of the brokers.
func (s *Set) onChange(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = append(s.changed, f)
}

// retain counts one more user.
func (e *entry) retain() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.users++
}

func (e *entry) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.users--; e.retired && e.users == 0 {
		close(e.unused)
	}
}

func (e *entry) retire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.retired = true; e.users == 0 {
		close(e.unused)
	}
}

// budget bounds how many bytes of payloads are in memory that do not come with deliveries.
type budget struct {
	mu    sync.Mutex
	left  int64
	freed chan struct{} // closed when some was given back
}

func newBudget(bytes int64) *budget { return &budget{left: bytes, freed: make(chan struct{})} }

// try takes n bytes if there are so many; freed is closed when it is worth another try.
func (b *budget) try(n int64) (ok bool, freed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n <= b.left {
		b.left -= n
		return true, nil
	}
	return false, b.freed
}

// take takes n bytes, as soon as there are so many.
func (b *budget) take(ctx context.Context, n int64) error {
	for {
		ok, freed := b.try(n)
		if ok {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	close(b.freed)
	b.freed = make(chan struct{})
}
