package dispatch

import (
	"maps"
	"slices"
	"sync"
)

// Flights are the attempts that a [Transport] has in flight, until it leaves.
type Flights[F comparable] struct {
	token func(F) string

	mu      sync.Mutex
	byToken map[string]F
	n       int
	leaving bool
	landed  chan struct{}
}

// NewFlights returns no flights; token returns the token of one.
func NewFlights[F comparable](token func(F) string) *Flights[F] {
	return &Flights[F]{token: token, byToken: map[string]F{}, landed: make(chan struct{})}
}

// Start adds all of fs, or none and returns false if the transport leaves.
func (f *Flights[F]) Start(fs []F) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leaving {
		return false
	}
	f.n += len(fs)
	for _, one := range fs {
		f.byToken[f.token(one)] = one
	}
	return true
}

// Land removes flights that have ended.
func (f *Flights[F]) Land(fs ...F) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range fs {
		if token := f.token(one); f.byToken[token] == one { // not one that was delivered again meanwhile
			delete(f.byToken, token)
		}
	}
	if f.n -= len(fs); f.leaving && f.n == 0 && len(fs) > 0 {
		close(f.landed)
	}
}

// Find returns the flight with a token; the zero value: there is none.
func (f *Flights[F]) Find(token string) F {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byToken[token]
}

// All returns those that are in flight.
func (f *Flights[F]) All() []F {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.byToken))
}

// Leave has no more flights start. The channel is closed when all have landed.
func (f *Flights[F]) Leave() (landed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.leaving {
		f.leaving = true
		if f.n == 0 {
			close(f.landed)
		}
	}
	return f.landed
}
