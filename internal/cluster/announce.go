package cluster

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/store"
)

// announceWithin is how long the other nodes may take to have read settings anew. What they miss they find within seconds.
const announceWithin = time.Second

// news is the settings that have changed and of which the other nodes have not been told.
type news struct {
	mu     sync.Mutex
	names  map[string]bool
	busy   bool // somebody is telling them
	ended  bool
	runner sync.WaitGroup
}

// Announce tells all other nodes that the settings of a namespace have changed; it does not wait. It is what the engine's
// configuration wants.
func (n *Node) Announce(namespace string) {
	n.news.mu.Lock()
	defer n.news.mu.Unlock()
	if n.news.ended {
		return
	}
	if n.news.names == nil {
		n.news.names = map[string]bool{}
	}
	n.news.names[namespace] = true
	if !n.news.busy {
		n.news.busy = true
		n.news.runner.Go(n.spreadNews)
	}
}

// spreadNews tells what there is to tell, and what comes in meanwhile: one goroutine, however many settings change.
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
			return // its engine told of them
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if err := c.ReloadNamespace(ctx, name); err != nil {
				n.log.Debug("a node was not told of a namespace's settings", "node", m.ID, "namespace", name, "error", err)
			}
		}
	})
}

// end tells nothing more, and waits until nobody does.
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
