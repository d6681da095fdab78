package peer

import (
	"context"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
)

// Status implements [cluster.Control].
func (c *Calls) Status(ctx context.Context) (cluster.Status, error) {
	m, err := c.service.Status(ctx, &peerv1.StatusRequest{NotAfter: c.notAfter(ctx)})
	if err != nil {
		return cluster.Status{}, err
	}
	return cluster.Status{ID: m.GetId(), Nonce: m.GetNonce(), Skew: m.GetSkew().AsDuration(),
		SkewKnown: m.GetSkew() != nil, Leaving: m.GetLeaving(),
		Trouble: m.GetTrouble()}, nil
}

// statusToProto is the reverse.
func statusToProto(s cluster.Status) *peerv1.StatusResponse {
	m := &peerv1.StatusResponse{Id: s.ID, Nonce: s.Nonce, Leaving: s.Leaving,
		Trouble: strings.ToValidUTF8(s.Trouble, "�")}
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
	_, err := c.service.SetDraining(ctx, &peerv1.SetDrainingRequest{NotAfter: c.notAfter(ctx),
		On: on, Nonce: nonce})
	return err
}

// ReloadNamespace implements [cluster.Control].
func (c *Calls) ReloadNamespace(ctx context.Context, name string) error {
	_, err := c.service.ReloadNamespace(ctx,
		&peerv1.ReloadNamespaceRequest{NotAfter: c.notAfter(ctx), Name: name})
	return err
}

// HearLimits implements [cluster.Control].
func (c *Calls) HearLimits(ctx context.Context, table *message.LimitTable) error {
	m := &peerv1.HearLimitsRequest{NotAfter: c.notAfter(ctx), Node: table.Node, Nonce: table.Nonce,
		Version: table.Version}
	for _, l := range table.Limits {
		actorType, key, ok := l.Actor()
		if !ok {
			return carillon.Errorf(carillon.Internal, "limits", "no sidecar has named %.64q", l.Key)
		}
		m.Limits = append(m.Limits, &peerv1.NamedLimit{Namespace: l.Namespace, ActorType: actorType,
			ConcurrencyKey: key, Most: int64(l.Most), Stamp: l.Stamp})
	}
	_, err := c.service.HearLimits(ctx, m)
	return err
}

// SettleSidecar implements [cluster.Control].
func (c *Calls) SettleSidecar(ctx context.Context, from string, told bool) error {
	_, err := c.service.SettleSidecar(ctx, &peerv1.SettleSidecarRequest{NotAfter: c.notAfter(ctx), From: from,
		Told: told})
	return err
}

// Status implements the rpc. It is answered however late the request arrives: a clock that is off is no
// reason to consider a node dead.
func (s *Server) Status(ctx context.Context, _ *peerv1.StatusRequest) (*peerv1.StatusResponse, error) {
	if err := s.known(ctx); err != nil {
		return nil, marked(err)
	}
	status, err := s.served.Control.Status(ctx)
	return statusToProto(status), marked(err)
}

// Look implements the rpc.
func (s *Server) Look(ctx context.Context, m *peerv1.LookRequest) (*peerv1.LookResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.LookResponse, error) {
		return &peerv1.LookResponse{}, s.served.Control.Look(ctx)
	})
}

// SetDraining implements the rpc.
func (s *Server) SetDraining(ctx context.Context,
	m *peerv1.SetDrainingRequest) (*peerv1.SetDrainingResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.SetDrainingResponse, error) {
		return &peerv1.SetDrainingResponse{}, s.served.Control.SetDraining(ctx, m.GetNonce(), m.GetOn())
	})
}

// ReloadNamespace implements the rpc.
func (s *Server) ReloadNamespace(ctx context.Context,
	m *peerv1.ReloadNamespaceRequest) (*peerv1.ReloadNamespaceResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.ReloadNamespaceResponse, error) {
		return &peerv1.ReloadNamespaceResponse{}, s.served.Control.ReloadNamespace(ctx, m.GetName())
	})
}

// HearLimits implements the rpc.
func (s *Server) HearLimits(ctx context.Context,
	m *peerv1.HearLimitsRequest) (*peerv1.HearLimitsResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.HearLimitsResponse, error) {
		table := &message.LimitTable{Node: m.GetNode(), Nonce: m.GetNonce(), Version: m.GetVersion()}
		for _, l := range m.GetLimits() {
			table.Limits = append(table.Limits, delivery.NamedLimit{
				Limit: delivery.ActorLimit(l.GetNamespace(), l.GetActorType(), l.GetConcurrencyKey()),
				Most:  int(l.GetMost()), Stamp: l.GetStamp()})
		}
		return &peerv1.HearLimitsResponse{}, s.served.Control.HearLimits(ctx, table)
	})
}

// SettleSidecar implements the rpc.
func (s *Server) SettleSidecar(ctx context.Context,
	m *peerv1.SettleSidecarRequest) (*peerv1.SettleSidecarResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.SettleSidecarResponse, error) {
		return &peerv1.SettleSidecarResponse{}, s.served.Control.SettleSidecar(ctx, m.GetFrom(), m.GetTold())
	})
}
