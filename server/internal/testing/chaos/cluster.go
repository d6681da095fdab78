package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/link"
)

// Backend is the store of a cluster, on a real server.
type Backend struct {
	URL string // of an empty store
	// of its server, as it stands in URL; "" = nodes reach it directly, and cannot be cut off from it
	Address string
	// Of is the URL for a node, by its number from 0, whose process is also one of the store's servers, and
	// where others reach that server; nil: it is URL for all.
	Of func(node int) (url string, doors []Door)
	// Stale is how old what a process hears of owners from the store may be.
	Stale time.Duration
	// Flags of nodes, before those of the cluster.
	Flags []string
	Down  func() // ends the server as a crash would; nil = it is not to be ended
	Up    func() // starts it again, and returns when it answers
	Lose  func() // ends it, and takes away all that it has kept; nil = that is not done to it

	// Failover ends the primary by force and returns when its standby, which has all that was acknowledged,
	// has taken its place and has a standby of its own; nil = there is none.
	Failover func()
}

// Door is an address at which others reach a server, and the one at which it listens behind it.
type Door struct{ At, To string }

// ClusterConfig says what a cluster is made of.
type ClusterConfig struct {
	Binary string
	Store  Backend
	Flags  []string // of all nodes
	Logs   string   // folder for their logs; "" = none are written
}

// Cluster is nodes on one store. Each is reached by others through a link of its own, and reaches the store
// through another.
type Cluster struct {
	ClusterConfig

	mu      sync.Mutex
	members []*Member
	made    []*Node // all that ever were
}

// Member is a node of a cluster. Peers, workers and clients reach it at its Front; its own addresses are
// behind it.
type Member struct {
	*Node
	Front *link.Link
	Back  *link.Link // to the store; nil if Backend.Address is empty
	// Doors are the links to the store's server in the node's process; nil if there is none.
	Doors []*link.Link
}

// Outside is the name by which whoever is no node is cut off, in Front.CutFrom.
const Outside = ""

// NewCluster makes a cluster without nodes.
func NewCluster(c ClusterConfig) *Cluster { return &Cluster{ClusterConfig: c} }

// Add makes a node, not started, with a name of its own and flags besides those of all.
func (c *Cluster) Add(flags ...string) (*Member, error) {
	c.mu.Lock()
	number := len(c.made)
	c.mu.Unlock()
	m := &Member{}
	url, doors := c.Store.URL, []Door(nil)
	if c.Store.Of != nil {
		url, doors = c.Store.Of(number)
	}
	for _, d := range doors {
		l, err := link.Listen(d.To, link.Options{At: d.At, From: c.source})
		if err != nil {
			return nil, errors.Join(err, m.close())
		}
		m.Doors = append(m.Doors, l)
	}
	if address := c.Store.Address; address != "" {
		var err error
		if m.Back, err = link.Listen(address, link.Options{}); err != nil {
			return nil, err
		}
		url = strings.Replace(url, address, m.Back.Address(), 1)
	}
	n, err := NewNode(c.Binary, url, slices.Concat(c.Store.Flags, c.Flags, flags)...)
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	n.Name = nodeName(number)
	m.Node = n
	if m.Front, err = link.Listen(n.GRPC, link.Options{From: c.source}); err != nil {
		return nil, errors.Join(err, m.close())
	}
	n.Flags = append(n.Flags, "--node-name", m.Name, "--advertise", m.Front.Address())
	if c.Logs != "" {
		n.File = filepath.Join(c.Logs, m.Name+".log")
	}
	c.mu.Lock()
	c.members, c.made = append(c.members, m), append(c.made, n)
	c.mu.Unlock()
	return m, nil
}

// nodeName is the name of the node of a number.
func nodeName(number int) string { return fmt.Sprintf("node-%d", number) }

// Deaths are the moments at which nodes were killed, those too that were removed since.
func (c *Cluster) Deaths() (out []Death) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.made {
		out = append(out, n.Deaths()...)
	}
	return out
}

// Start makes and starts n nodes, and waits until all are ready.
func (c *Cluster) Start(ctx context.Context, n int) ([]*Member, error) {
	var out []*Member
	for range n {
		m, err := c.Add()
		if err != nil {
			return out, err
		}
		if err := m.Start(); err != nil {
			return out, err
		}
		out = append(out, m)
	}
	return out, c.Ready(ctx)
}

// Members are the nodes that were added and not removed, in that order.
func (c *Cluster) Members() []*Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.members)
}

// Running are the members whose process there is.
func (c *Cluster) Running() []*Member {
	return slices.DeleteFunc(c.Members(), func(m *Member) bool { return !m.Runs() })
}

// Ready waits until every node that runs says that it is ready.
func (c *Cluster) Ready(ctx context.Context) error {
	for _, m := range c.Running() {
		if err := m.Node.Ready(ctx); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}

// Remove takes a node, which does not run, out for good.
func (c *Cluster) Remove(m *Member) error {
	c.mu.Lock()
	c.members = slices.DeleteFunc(c.members, func(x *Member) bool { return x == m })
	c.mu.Unlock()
	return m.close()
}

// Close kills all nodes and ends their links.
func (c *Cluster) Close() error {
	var errs []error
	for _, m := range c.Members() {
		errs = append(errs, m.Kill(), c.Remove(m))
	}
	return errors.Join(errs...)
}

func (m *Member) close() error {
	var errs []error
	for _, l := range append(slices.Clone(m.Doors), m.Front, m.Back) {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}

// source is the name of the node at the other end of a connection, or [Outside].
func (c *Cluster) source(conn net.Conn) string {
	inode := inodeOf(conn)
	for _, m := range c.Running() {
		if holds(m.PID(), inode) {
			return m.Name
		}
	}
	return Outside
}

// Isolate cuts a node off from all others, both ways; not from a store that is not in them, and not from
// clients and workers.
func (c *Cluster) Isolate(m *Member, f link.Fault) {
	for _, other := range c.Members() {
		if other != m {
			m.Front.CutFrom(other.Name, f)
			other.Front.CutFrom(m.Name, f)
		}
	}
	c.isolateServer(m, f)
}

// isolateServer cuts a node and the store's server in it off from the servers in all others, both ways.
func (c *Cluster) isolateServer(m *Member, f link.Fault) {
	for _, other := range c.Members() {
		if other == m {
			continue
		}
		for _, l := range m.Doors {
			l.CutFrom(other.Name, f)
		}
		for _, l := range other.Doors {
			l.CutFrom(m.Name, f)
		}
	}
}

// CutStore cuts a node off from the store; if that is in the nodes, from what is in the others.
func (c *Cluster) CutStore(m *Member, f link.Fault) {
	if m.Back != nil {
		m.Back.Cut(f)
	}
	c.isolateServer(m, f)
}

// SlowStore makes whatever a node is told by the store take longer.
func (m *Member) SlowStore(d time.Duration) {
	if m.Back != nil {
		m.Back.Delay(d)
	}
	for _, l := range m.Doors {
		l.Delay(d)
	}
}

// Heal ends what is wrong with all links, delays too.
func (c *Cluster) Heal() {
	for _, m := range c.Members() {
		for _, l := range append(slices.Clone(m.Doors), m.Front, m.Back) {
			if l != nil {
				l.Heal()
				l.Delay(0)
			}
		}
	}
}
