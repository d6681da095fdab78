package cluster

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/store"
)

// announceWithin is how long the other nodes may take to read changed settings. Those that miss it find the
// change within seconds.
const announceWithin = time.Second

// newsFor is how long joining nodes are told of settings that have changed. A node reads all settings when
// its engine starts, which is before the others know about the node, and again this long after that: it can
// learn of changes in between only from the others.
const newsFor = 5 * time.Second

// news holds changed settings of which the other nodes have not been told.
type news struct {
	mu     sync.Mutex
	names  map[string]bool
	recent map[string]time.Time // when recently changed settings changed
	busy   bool                 // a goroutine is announcing
	ended  bool
	runner sync.WaitGroup
}

// Announce tells all other nodes that the settings of a namespace have changed. It does not wait. It is the
// Announce of [engine.Config].
func (n *Node) Announce(namespace string) {
	n.news.mu.Lock()
	defer n.news.mu.Unlock()
	if n.news.recent == nil {
		n.news.recent = map[string]time.Time{}
	}
	n.news.recent[namespace] = time.Now()
	n.tell(namespace)
}

// welcome announces recent changes again, if there are nodes that were not there before.
func (n *Node) welcome(before, after []store.Member) {
	n.news.mu.Lock()
	defer n.news.mu.Unlock()
	maps.DeleteFunc(n.news.recent, func(_ string, at time.Time) bool { return time.Since(at) > newsFor })
	came := slices.ContainsFunc(after, func(m store.Member) bool {
		return !slices.ContainsFunc(before, func(o store.Member) bool { return o.ID == m.ID && o.Nonce == m.Nonce })
	})
	if came && len(n.news.recent) > 0 {
		n.tell(slices.Collect(maps.Keys(n.news.recent))...)
	}
}

// tell adds names to be announced. The caller holds the lock.
func (n *Node) tell(names ...string) {
	if n.news.ended {
		return
	}
	if n.news.names == nil {
		n.news.names = map[string]bool{}
	}
	for _, name := range names {
		n.news.names[name] = true
	}
	if !n.news.busy {
		n.news.busy = true
		n.news.runner.Go(n.spreadNews)
	}
}

// spreadNews announces what is there and what comes in meanwhile: one goroutine, however many settings
// change.
func (n *Node) spreadNews() {
	for {
		n.news.mu.Lock()
		names := n.news.names
		n.news.names, n.news.busy = nil, len(names) > 0
		n.news.mu.Unlock()
		if len(names) == 0 {
			return
		}
		n.tellNews(names)
	}
}

func (n *Node) tellNews(names map[string]bool) {
	ctx, cancel := context.WithTimeout(n.ctx, announceWithin)
	defer cancel()
	n.each(n.view.Load().members, func(m store.Member, c Control) {
		if m.ID == n.id {
			return // its engine called Announce
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if err := c.ReloadNamespace(ctx, name); err != nil {
				n.log.Debug("a node was not told of a namespace's settings", "node", m.ID, "namespace", name, "error", err)
			}
		}
	})
}

// end stops announcements, and waits until the goroutine has ended.
func (w *news) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.runner.Wait()
}

// ReloadNamespace implements [Control].
func (n *Node) ReloadNamespace(ctx context.Context, name string) error {
	return n.local.ReloadNamespace(ctx, name)
}
