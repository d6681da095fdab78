package etcdapi

import (
	"context"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/carillonhq/carillon"
	cronpb "github.com/carillonhq/carillon/api/dapr/proto/cron/v1"
	schedulerpb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// nodesNow returns the living nodes by name, this one among them.
func (s *Service) nodesNow(ctx context.Context) (all []carillon.Node, _ error) {
	failed := s.nodes(ctx, func(nodes []carillon.Node) error {
		all = slices.Clone(nodes)
		return errEnough
	})
	if err := unless(errEnough, failed); err != nil {
		return nil, err
	}
	if len(all) == 1 { // it is this one, whatever it is called where nobody sees it
		all[0].ID = s.options.ID
	}
	slices.SortFunc(all, func(a, b carillon.Node) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// eachLeader calls f with the keys of the span that schedulers of Dapr write when they take part: one for
// each node.
func (s *Service) eachLeader(ctx context.Context, sp span, f func(found) error) error {
	nodes, err := s.nodesNow(ctx)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		key := daprrecord.LeadershipPrefix + node.ID
		if !sp.contains(key) {
			continue
		}
		value, err := leadershipOf(&node, len(nodes))
		if err != nil {
			return err
		}
		err = f(found{KeyValue: &mvccpb.KeyValue{Key: []byte(key), Value: value, CreateRevision: s.begun,
			ModRevision: s.begun, Version: 1, Lease: s.revoked.leaseOf(node.ID)}})
		if err != nil {
			return err
		}
	}
	return nil
}

// leadershipOf returns what a scheduler among so many says of itself.
func leadershipOf(n *carillon.Node, all int) ([]byte, error) {
	host, err := anypb.New(&schedulerpb.Host{Address: n.Sidecars})
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(&cronpb.Leadership{Total: uint64(all),
		Uid: numberOf(n.ID), ReplicaData: host})
}

// revoked counts, by node, how often the lease of its key has been revoked here: a scheduler takes a new one
// at once then, and its key is there again.
type revoked struct {
	mu    sync.Mutex
	times map[string]int
}

// leaseOf returns the lease of a node's key.
func (r *revoked) leaseOf(node string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(numberOf(node)) + 2*int64(r.times[node])
}

// renew gives a node's key another lease.
func (r *revoked) renew(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.times == nil {
		r.times = map[string]int{}
	}
	r.times[node]++
}
