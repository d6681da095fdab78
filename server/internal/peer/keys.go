package peer

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store/codec"
)

func (c *Calls) changeKey(ctx context.Context, p int, m message.ChangeKey) (bool, error) {
	req := &peerv1.ChangeKeyRequest{NotAfter: c.notAfter(ctx), Partition: int32(p), Id: m.ID, First: m.First}
	if m.Create != nil {
		req.Id, req.Record = m.Create.ID, codec.EncodeKey(m.Create)
	}
	if m.Rotate != nil {
		req.Id, req.Record, req.Was = m.Rotate.ID, codec.EncodeKey(m.Rotate), m.Was[:]
	}
	for _, u := range m.Uses {
		req.Uses = append(req.Uses, &peerv1.KeyUse{Id: u.ID, Hour: timestamppb.New(u.Hour)})
	}
	reply, err := c.service.ChangeKey(ctx, req)
	return reply.GetDone(), err
}

// ChangeKey implements the rpc.
func (s *Server) ChangeKey(ctx context.Context,
	m *peerv1.ChangeKeyRequest) (*peerv1.ChangeKeyResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.ChangeKeyResponse, error) {
		change := message.ChangeKey{ID: m.GetId(), First: m.GetFirst()}
		if len(m.GetRecord()) > 0 {
			k, err := codec.DecodeKey(m.GetRecord(), m.GetId())
			if err != nil {
				return nil, err
			}
			change.Create = &k
		}
		if was := m.GetWas(); len(was) > 0 {
			if len(was) != len(change.Was) || change.Create == nil {
				return nil, carillon.Errorf(carillon.InvalidArgument, "was", "a key is rotated by a record, and a hash of %d bytes",
					len(change.Was))
			}
			copy(change.Was[:], was)
			change.Create, change.Rotate = nil, change.Create
		}
		for _, u := range m.GetUses() {
			change.Uses = append(change.Uses, access.Use{ID: u.GetId(), Hour: u.GetHour().AsTime()})
		}
		done, err := ask(ctx, s, m.GetPartition(), change)
		return &peerv1.ChangeKeyResponse{Done: done}, err
	})
}
