package peer

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store/codec"
)

func (c *Calls) changeKey(ctx context.Context, p int, m message.ChangeKey) (bool, error) {
	req := &peerv1.ChangeKeyRequest{NotAfter: c.notAfter(ctx), Partition: int32(p), Id: m.ID}
	if m.Create != nil {
		req.Id, req.Record = m.Create.ID, codec.EncodeKey(m.Create)
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
		change := message.ChangeKey{ID: m.GetId()}
		if len(m.GetRecord()) > 0 {
			k, err := codec.DecodeKey(m.GetRecord(), m.GetId())
			if err != nil {
				return nil, err
			}
			change.Create = &k
		}
		for _, u := range m.GetUses() {
			change.Uses = append(change.Uses, access.Use{ID: u.GetId(), Hour: u.GetHour().AsTime()})
		}
		done, err := ask(ctx, s, m.GetPartition(), change)
		return &peerv1.ChangeKeyResponse{Done: done}, err
	})
}
