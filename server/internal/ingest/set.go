package ingest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Set is the ingests of a node.
type Set struct {
	o Options

	mu        sync.Mutex
	all       map[string]*Ingest
	unstarted map[string]*unstarted // those that could not be
	closed    bool
}

// NewSet returns a set without any.
func NewSet(o Options) *Set {
	return &Set{o: o, all: map[string]*Ingest{}, unstarted: map[string]*unstarted{}}
}

// Apply puts ingests in place of those before. Those that have not changed go on; the others are ended, and
// have ended when the new ones begin. It is called from one goroutine.
func (s *Set) Apply(configs map[string]Config) {
	s.end(context.Background(), func(name string, g *Ingest) bool {
		c, stays := configs[name]
		return !stays || c.Print != g.config.Print
	})
	s.mu.Lock()
	before := s.unstarted // each is tried again
	s.unstarted = map[string]*unstarted{}
	s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		s.start(configs[name], before[name])
	}
}

// start starts an ingest; before is it as it could not be started, or nil.
func (s *Set) start(c Config, before *unstarted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.all[c.Name] != nil {
		return
	}
	g, err := Start(c, s.o)
	if err != nil {
		since := time.Now().UTC()
		if before != nil && before.config.Print == c.Print {
			since = before.since
		}
		s.unstarted[c.Name] = &unstarted{c, since, err}
		s.o.Log.Error("an ingest cannot be started", "ingest", c.Name, "error", err)
		return
	}
	s.all[c.Name] = g
	s.o.Log.Info("messages are taken from a broker", "ingest", c.Name, "broker", c.Broker, "topics", c.Topics,
		"namespace", c.Namespace)
}

// end ends those that are chosen.
func (s *Set) end(ctx context.Context, which func(name string, g *Ingest) bool) {
	s.mu.Lock()
	var ending []*Ingest
	for name, g := range s.all {
		if which(name, g) {
			ending = append(ending, g)
			delete(s.all, name)
		}
	}
	s.mu.Unlock()
	var over sync.WaitGroup
	for _, g := range ending {
		over.Go(func() { g.Close(ctx) })
	}
	over.Wait()
}

// Close ends all of them, for good. What is under way may end until ctx is done.
func (s *Set) Close(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	clear(s.unstarted)
	s.mu.Unlock()
	s.end(ctx, func(string, *Ingest) bool { return true })
}

// Stats returns how the topics stand, by ingest and topic.
func (s *Set) Stats() (all []TopicStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.all)) {
		all = append(all, s.all[name].Stats()...)
	}
	return all
}
