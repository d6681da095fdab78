package peer

import (
	"context"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/queues"
)

// OwnIngests implements [cluster.Control].
func (c *Calls) OwnIngests(ctx context.Context, q queues.Query) ([]carillon.Ingest, error) {
	m, err := c.service.OwnIngests(ctx, &peerv1.OwnIngestsRequest{NotAfter: c.notAfter(ctx),
		Namespace: q.Namespace, After: placeToProto(q.After), Limit: int32(q.Limit)})
	return wire.IngestsFromProto(m.GetIngests()), err
}

// OwnIngests implements the rpc.
func (s *Server) OwnIngests(ctx context.Context,
	m *peerv1.OwnIngestsRequest) (*peerv1.OwnIngestsResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.OwnIngestsResponse, error) {
		limit, err := limitOf(m.GetLimit())
		if err != nil {
			return nil, err
		}
		own, err := s.served.Control.OwnIngests(ctx, queues.Query{Namespace: m.GetNamespace(),
			After: placeFromProto(m.GetAfter()), Limit: limit})
		return &peerv1.OwnIngestsResponse{Ingests: wire.IngestsToProto(own)}, err
	})
}
