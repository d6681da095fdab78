package peer

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/internal/cluster"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/internal/wire"
)

// Status implements [cluster.Control].
func (c *Calls) Status(ctx context.Context) (cluster.Status, error) {
	m, err := c.service.Status(ctx, &peerv1.StatusRequest{NotAfter: c.notAfter(ctx)})
	if err != nil {
		return cluster.Status{}, err
	}
	return cluster.Status{ID: m.GetId(), Nonce: m.GetNonce(), Skew: m.GetSkew().AsDuration(), SkewKnown: m.GetSkew() != nil,
		Leaving: m.GetLeaving()}, nil
}

// statusToProto is the reverse.
func statusToProto(s cluster.Status) *peerv1.StatusResponse {
	m := &peerv1.StatusResponse{Id: s.ID, Nonce: s.Nonce, Leaving: s.Leaving}
	if s.SkewKnown {
		m.Skew = durationpb.New(s.Skew)
	}
	return m
}

// Look implements [cluster.Control].
func (c *Calls) Look(ctx context.Context) error {
	_, err := c.service.Look(ctx, &peerv1.LookRequest{NotAfter: c.notAfter(ctx)})
	return err
}

// SetDraining implements [cluster.Control].
func (c *Calls) SetDraining(ctx context.Context, nonce uint64, on bool) error {
	_, err := c.service.SetDraining(ctx, &peerv1.SetDrainingRequest{NotAfter: c.notAfter(ctx), On: on, Nonce: nonce})
	return err
}

// ReloadNamespace implements [cluster.Control].
func (c *Calls) ReloadNamespace(ctx context.Context, name string) error {
	_, err := c.service.ReloadNamespace(ctx, &peerv1.ReloadNamespaceRequest{NotAfter: c.notAfter(ctx), Name: name})
	return err
}

// Register implements [engine.Partitions].
func (c *Calls) Register(ctx context.Context, p int, edges []partition.Dependency) ([]bool, error) {
	req := &peerv1.RegisterRequest{NotAfter: c.notAfter(ctx), Partition: int32(p)}
	for _, e := range edges {
		req.Edges = append(req.Edges, edgeToProto(e))
	}
	m, err := c.service.Register(ctx, req)
	return m.GetExist(), err
}

// Release implements [engine.Partitions].
func (c *Calls) Release(ctx context.Context, p int, l partition.Notice) (partition.Answer, error) {
	m, err := c.service.Release(ctx, &peerv1.ReleaseRequest{NotAfter: c.notAfter(ctx), Partition: int32(p),
		Edge: edgeToProto(l.Dependency), By: l.By.String(), Stamp: l.Stamp})
	return partition.Answer(m.GetAnswer()), err
}

// Waits implements [engine.Partitions].
func (c *Calls) Waits(ctx context.Context, p int, e partition.Dependency) (bool, error) {
	m, err := c.service.Waits(ctx, &peerv1.WaitsRequest{NotAfter: c.notAfter(ctx), Partition: int32(p), Edge: edgeToProto(e)})
	return m.GetWaits(), err
}

// Keeps implements [engine.Partitions].
func (c *Calls) Keeps(ctx context.Context, p int, job *carillon.Job) (bool, error) {
	m, err := c.service.Keeps(ctx, &peerv1.KeepsRequest{NotAfter: c.notAfter(ctx), Partition: int32(p), Job: wire.JobToProto(job)})
	return m.GetKeeps(), err
}

// ApplyShare implements [engine.Partitions].
func (c *Calls) ApplyShare(ctx context.Context, p int, s *partition.Share) ([]carillon.PutResult, error) {
	req := shareToProto(s)
	req.NotAfter, req.Partition = c.notAfter(ctx), int32(p)
	m, err := c.service.ApplyShare(ctx, req)
	if err == nil && m.GetOtherTerm() != nil {
		err = engine.OtherTerm(p, &partition.OtherTermError{Term: termFromProto(m.GetOtherTerm())})
	}
	if err != nil || m.GetStoredBefore() {
		return nil, err
	}
	puts := make([]carillon.PutResult, len(m.GetPuts()))
	for i, put := range m.GetPuts() {
		if puts[i], err = wire.PutFromProto(put); err != nil {
			return nil, err
		}
		if i < len(s.Reqs) {
			puts[i].Job.Data = s.Reqs[i].Job.Data // the answer leaves it out
		}
	}
	return puts, nil
}

// DeleteIn implements [engine.Partitions].
func (c *Calls) DeleteIn(ctx context.Context, p int, namespace, prefix string) (int, error) {
	m, err := c.service.DeleteIn(ctx, &peerv1.DeleteInRequest{NotAfter: c.notAfter(ctx), Partition: int32(p), Namespace: namespace, Prefix: prefix})
	return int(m.GetDeleted()), err
}

// RedriveIn implements [engine.Partitions].
func (c *Calls) RedriveIn(ctx context.Context, p int, namespace, job string) (int, error) {
	m, err := c.service.RedriveIn(ctx, &peerv1.RedriveInRequest{NotAfter: c.notAfter(ctx), Partition: int32(p), Namespace: namespace, Job: job})
	return int(m.GetRedriven()), err
}

// Relay implements [engine.Partitions].
func (c *Calls) Relay(ctx context.Context, p int, s engine.Reports) (engine.RelayResult, error) {
	req := saidToProto(s)
	req.NotAfter, req.Partition = c.notAfter(ctx), int32(p)
	m, err := c.service.Hear(ctx, req)
	return engine.RelayResult{Accepted: m.GetAccepted(), Stale: m.GetStale()}, err
}
