package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/follow"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/peer"
	"github.com/carillonhq/carillon/server/internal/telemetry"
	"github.com/carillonhq/carillon/server/store"
)

// localName is the node's name on a store that only this process can use.
const localName = "local"

// embeddedName is the name of each node that others cannot reach. It is the same in all processes, so that a
// store that they share admits only one of them.
const embeddedName = "embedded"

// defaultName returns the node's name if none is configured.
func defaultName(storeURL string) string {
	if !isShared(storeURL) {
		return localName
	}
	host, err := os.Hostname()
	if err != nil {
		return localName
	}
	return host
}

// Shared reports whether other processes can open the store of a URL, too.
func Shared(storeURL string) bool { return isShared(storeURL) }

// isShared reports whether other nodes can open the store of a URL, too. The node of such a store always
// belongs to a cluster, if only of one; any other node owns all partitions and is alone.
func isShared(storeURL string) bool {
	d, err := store.DriverOf(storeURL)
	return err == nil && d.Shared
}

// leaseTTL is how long leases last on a store by its own default; 0: it has none.
func leaseTTL(storeURL string) time.Duration {
	d, err := store.DriverOf(storeURL)
	if err != nil {
		return 0
	}
	return d.LeaseTTL
}

// unreachable reports whether other nodes cannot reach this one, which package embedded runs without
// listeners. It has a shared store to itself.
func (c Config) unreachable() bool { return c.self.Address == "" }

// calls are the operations that a node offers for all partitions, wherever they are.
type calls interface {
	carillon.Jobs
	carillon.Runs
	carillon.Backfills
	carillon.Namespaces
	carillon.Calendars
	carillon.Timetables
	message.Partitions
}

// join prepares the node to be part of a cluster. It becomes a member when the engine runs. The store is
// open.
func (n *Node) join() {
	if !isShared(n.config.Store) {
		return
	}
	self := n.config.self
	n.member = cluster.New(cluster.Config{
		Exclusive: n.config.unreachable(),
		Member:    store.Member{ID: n.config.Name, Address: self.Address, HTTP: self.HTTP, Sidecars: self.Sidecars},
		Settings:  n.config.shared(n.store.Meta().MACKey),
		Store:     n.store, TTL: n.config.LeaseTTL, Now: n.config.Now, Log: n.config.Log, Events: n.clusterEvents(),
		Dial: n.dial, Queues: n.queues, Trouble: n.trouble.Now,
	})
}

// dial returns a client of another node.
func (n *Node) dial(m store.Member) (cluster.Peer, error) {
	return peer.Dial(m.Address, peer.Options{
		Secret: peer.Secret(n.store.Meta().MACKey), Now: n.member.StoreNow, MaxMessage: maxMessage(n.config.Limits),
		Dial: n.config.Credentials.dial(),
	})
}

// arrival is how long workers may take to arrive at a node of a cluster: they retry every 5 s at most, and
// must connect.
const arrival = 10 * time.Second

// enter makes the node a member, if it is part of a cluster, and sets where calls go.
func (n *Node) enter(ctx context.Context) error {
	if n.member == nil {
		self := n.config.self
		self.ID, self.State = n.config.Name, carillon.NodeFit // also without listeners
		n.calls, n.cluster = n.engine, soloCluster{self: self, leases: n.store.Leaser(),
			partitions: n.store.Meta().Partitions, now: n.config.Now, engine: n.engine, trouble: n.trouble.Err,
			List: n.queues.alone(n.store.Meta().MACKey)}
		return nil
	}
	n.calls, n.cluster = n.member.Router(), n.member
	if err := n.member.Start(ctx, n.engine); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if !n.config.unreachable() {
		n.unfollow = n.followNodes()
	}
	n.metrics.WatchCluster(func() telemetry.ClusterStats {
		s := n.member.Stats()
		stats := telemetry.ClusterStats{Members: s.Members, Skew: s.Skew, Refused: s.Refused}
		if s.Unfit {
			stats.Unfit = 1
		}
		return stats
	})
	return nil
}

// peerSizes returns options of the gRPC server, which other nodes use, too; none if the node is alone.
func (n *Node) peerSizes(o grpcapi.Options) []grpc.ServerOption {
	if n.member == nil {
		return nil
	}
	return peer.Sizes(o.MaxMessage)
}

// servePeers serves the other nodes of the cluster on a gRPC server.
func (n *Node) servePeers(r grpc.ServiceRegistrar, o grpcapi.Options) {
	if n.member == nil {
		return
	}
	peerv1.RegisterPeerServiceServer(r, peer.NewServer(peer.Served{
		Services: n.engine, Control: n.member, Partitions: n.store.Meta().Partitions,
		Secret: peer.Secret(n.store.Meta().MACKey), Now: n.member.StoreNow, Options: o,
		Node: n.config.Credentials.node(),
	}))
}

// serveFollow lets commands on a gRPC server copy what the node's partitions hold. Where nodes know each
// other by certificates, a command must show one of a node, too.
func (n *Node) serveFollow(r grpc.ServiceRegistrar) {
	var node func(context.Context) error
	if n.member != nil {
		node = n.config.Credentials.node()
	}
	follow.Register(r, follow.Source{Tap: n.tap, Store: n.store, Serves: n.engine.Serving},
		peer.Secret(n.store.Meta().MACKey), node)
}

// Moved is closed when the store has moved elsewhere while the node served it: the node must end.
func (n *Node) Moved() <-chan struct{} { return n.tap.Ended() }

// Replaced is closed when another process has taken the node's name in its cluster: this one must end.
func (n *Node) Replaced() <-chan struct{} {
	if n.member == nil {
		return nil
	}
	return n.member.Replaced()
}

// errReplaced is why a server ends by itself.
var errReplaced = errors.New("node_name: another process has joined the cluster under this node's name")

// handOverTimeout bounds the hand-over of partitions when a node leaves.
const handOverTimeout = 5 * time.Second

// silentLook is how often a leaving node checks whether its store answers.
const silentLook = 100 * time.Millisecond

// whileStored returns ctx, which also ends when the store of a cluster has not answered for the length of a
// lease. By then other nodes own this node's partitions, or soon will. Nothing can be handed over to them,
// and reports of consumers cannot be stored, so there is nothing to wait for.
func (n *Node) whileStored(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if n.member != nil {
		go func() {
			t := time.NewTicker(silentLook)
			defer t.Stop()
			for n.member.Silent() < n.config.LeaseTTL {
				select {
				case <-t.C:
				case <-ctx.Done():
					return
				}
			}
			cancel(fmt.Errorf("%w for %v", errSilent, n.member.Silent().Round(time.Millisecond)))
		}()
	}
	return ctx, func() { cancel(nil) }
}

// errSilent is why a leaving node stops waiting.
var errSilent = errors.New("the store has not answered")

// handOver hands the node's partitions over. Attempts in force go on; their results are relayed to the new
// owners.
func (n *Node) handOver(ctx context.Context) {
	if n.member == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	if err := n.member.Leave(ctx); err != nil {
		n.config.Log.Warn("the partitions were not handed over in time: others take them when their leases end",
			"error", err)
	}
}

// finish tells other nodes that this one accepts nothing any more, before it drops what it has kept. They
// would find out anyway.
func (n *Node) finish(ctx context.Context) {
	if n.member == nil {
		return
	}
	if err := n.member.Finish(ctx); err != nil {
		n.config.Log.Debug("the others were not told that this node ends", "error", err)
	}
}

// idleLook is how often a leaving node checks whether its consumers are done.
const idleLook = 20 * time.Millisecond

// awaitConsumers waits until no consumer has a run from this node, including runs of partitions that others
// own now.
func (n *Node) awaitConsumers(ctx context.Context) error {
	t := time.NewTicker(idleLook)
	defer t.Stop()
	for n.inFlight() > 0 {
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// inFlight returns how many runs the node's consumers have.
func (n *Node) inFlight() (sum int) {
	for _, w := range n.hub.Workers() {
		sum += w.InFlight
	}
	return sum
}

// leave ends the membership and closes the store.
func (n *Node) leave() error {
	if n.member == nil {
		return errors.Join(n.closeStores(), n.endTraces())
	}
	ctx, cancel := n.stopping()
	defer cancel()
	return errors.Join(n.member.Close(ctx), n.closeStore(ctx), n.endTraces())
}

// stopping returns the context for the last steps of a node's end.
func (n *Node) stopping() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	ctx, end := n.whileStored(ctx)
	return ctx, func() { end(); cancel() }
}

// closeStores closes the store, and that of payloads.
func (n *Node) closeStores() error {
	n.sealer.close()
	err := n.store.Close()
	n.payloads.Close()
	return err
}

// closeStore closes the store. If ctx ends first, writes in flight are abandoned with the process.
func (n *Node) closeStore(ctx context.Context) error {
	closed := make(chan error, 1)
	go func() { closed <- n.closeStores() }()
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("close the store: %w", context.Cause(ctx))
	}
}
