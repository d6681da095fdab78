package cluster

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// announceWithin is how long the other nodes may take to read changed settings. Those that miss it find the
// change within seconds.
const announceWithin = time.Second

// announceFor is how long joining nodes are told of settings that have changed. A node reads all settings
// when its engine starts, which is before the others know about the node, and again this long after that: it
// can learn of changes in between only from the others.
const announceFor = 5 * time.Second

// announcer tells other nodes of namespaces whose settings have changed. One goroutine sends, however many
// change. Its methods may be called at any time.
type announcer struct {
	send func(names []string) // tells all other nodes

	mu      sync.Mutex
	pending map[string]bool      // not sent yet
	recent  map[string]time.Time // when recently changed settings changed
	busy    bool                 // the goroutine is sending
	ended   bool
	sender  sync.WaitGroup
}

func newAnnouncer(send func(names []string)) *announcer {
	return &announcer{send: send, pending: map[string]bool{}, recent: map[string]time.Time{}}
}

// announce tells all other nodes that the settings of a namespace have changed. It does not wait.
func (a *announcer) announce(namespace string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.recent[namespace] = time.Now()
	a.enqueue(namespace)
}

// welcome announces recent changes again, if there are nodes that were not there before.
func (a *announcer) welcome(before, after []store.Member) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.recent, func(_ string, at time.Time) bool { return time.Since(at) > announceFor })
	if newcomers(before, after) && len(a.recent) > 0 {
		a.enqueue(slices.Collect(maps.Keys(a.recent))...)
	}
}

// enqueue adds names to be sent. The caller holds the lock.
func (a *announcer) enqueue(names ...string) {
	if a.ended {
		return
	}
	for _, name := range names {
		a.pending[name] = true
	}
	if !a.busy {
		a.busy = true
		a.sender.Go(a.run)
	}
}

// run sends what is pending and what comes in meanwhile.
func (a *announcer) run() {
	for {
		a.mu.Lock()
		names := slices.Sorted(maps.Keys(a.pending))
		clear(a.pending)
		a.busy = len(names) > 0
		a.mu.Unlock()
		if len(names) == 0 {
			return
		}
		a.send(names)
	}
}

// end stops announcements, and waits until the goroutine has ended.
func (a *announcer) end() {
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	a.sender.Wait()
}

// Announce tells all other nodes that the settings of a namespace have changed. It does not wait. It is the
// Announce of [engine.Config].
func (n *Node) Announce(namespace string) { n.announcer.announce(namespace) }

// sendNames makes the other nodes read the settings of namespaces.
func (n *Node) sendNames(names []string) {
	ctx, cancel := context.WithTimeout(n.ctx, announceWithin)
	defer cancel()
	n.peers.each(n.views.load().members, func(m store.Member, c Control) {
		if m.ID == n.id {
			return // its engine called Announce
		}
		for _, name := range names {
			if err := c.ReloadNamespace(ctx, name); err != nil {
				n.log.Debug("a node was not told of a namespace's settings", "node", m.ID, "namespace",
					name, "error", err)
			}
		}
	})
}

// ReloadNamespace implements [Control].
func (n *Node) ReloadNamespace(ctx context.Context, name string) error {
	return n.local.ReloadNamespace(ctx, name)
}
