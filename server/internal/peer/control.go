package peer

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/internal/cluster"
)

// Status implements [cluster.Control].
func (c *Calls) Status(ctx context.Context) (cluster.Status, error) {
	m, err := c.service.Status(ctx, &peerv1.StatusRequest{NotAfter: c.notAfter(ctx)})
	if err != nil {
		return cluster.Status{}, err
	}
	return cluster.Status{ID: m.GetId(), Nonce: m.GetNonce(), Skew: m.GetSkew().AsDuration(),
		SkewKnown: m.GetSkew() != nil, Leaving: m.GetLeaving()}, nil
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
