package peer

import (
	"context"

	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/internal/permit"
	"github.com/carillonhq/carillon/store"
)

// RequestPermits implements [engine.Partitions].
func (c *Calls) RequestPermits(ctx context.Context, p int, from permit.Asker, asks []permit.Request) ([]permit.Grant, error) {
	req := &peerv1.AskTokensRequest{NotAfter: c.notAfter(ctx), Partition: int32(p), From: int32(from.Partition), Term: termToProto(from.Term)}
	for _, a := range asks {
		req.Asks = append(req.Asks, &peerv1.TokenAsk{Namespace: a.Namespace, Key: a.Key, Stamp: stampToProto(a.Stamp),
			Hold: int64(a.Hold), Want: int64(a.Want), Order: a.Order})
	}
	m, err := c.service.AskTokens(ctx, req)
	return grantsFromProto(m.GetGrants()), err
}

// AskTokens implements the rpc.
func (s *Server) AskTokens(ctx context.Context, m *peerv1.AskTokensRequest) (*peerv1.AskTokensResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.AskTokensResponse, error) {
		asks := make([]permit.Request, len(m.GetAsks()))
		for i, a := range m.GetAsks() {
			asks[i] = permit.Request{Limit: partition.Limit{Namespace: a.GetNamespace(), Key: a.GetKey()},
				Stamp: stampFromProto(a.GetStamp()), Hold: int(a.GetHold()), Want: int(a.GetWant()), Order: a.GetOrder()}
		}
		from := permit.Asker{Partition: int(m.GetFrom()), Term: termFromProto(m.GetTerm())}
		grants, err := s.served.Services.RequestPermits(ctx, int(m.GetPartition()), from, asks)
		return &peerv1.AskTokensResponse{Grants: grantsToProto(grants)}, err
	})
}

// DeliverPermits implements [engine.Partitions].
func (c *Calls) DeliverPermits(ctx context.Context, p int, grants []permit.Grant) error {
	_, err := c.service.GiveTokens(ctx, &peerv1.GiveTokensRequest{NotAfter: c.notAfter(ctx), Partition: int32(p), Grants: grantsToProto(grants)})
	return err
}

// GiveTokens implements the rpc.
func (s *Server) GiveTokens(ctx context.Context, m *peerv1.GiveTokensRequest) (*peerv1.GiveTokensResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.GiveTokensResponse, error) {
		err := s.served.Services.DeliverPermits(ctx, int(m.GetPartition()), grantsFromProto(m.GetGrants()))
		return &peerv1.GiveTokensResponse{}, err
	})
}

func grantsToProto(grants []permit.Grant) []*peerv1.TokenGrant {
	ms := make([]*peerv1.TokenGrant, len(grants))
	for i, g := range grants {
		ms[i] = &peerv1.TokenGrant{Namespace: g.Namespace, Key: g.Key, Term: termToProto(g.Term), Stamp: stampToProto(g.Stamp),
			N: int64(g.N), Want: int64(g.Want), Rival: g.NextWaiter}
	}
	return ms
}

func grantsFromProto(ms []*peerv1.TokenGrant) []permit.Grant {
	grants := make([]permit.Grant, len(ms))
	for i, m := range ms {
		grants[i] = permit.Grant{Limit: partition.Limit{Namespace: m.GetNamespace(), Key: m.GetKey()},
			Term: termFromProto(m.GetTerm()), Stamp: stampFromProto(m.GetStamp()), N: int(m.GetN()), Want: int(m.GetWant()), NextWaiter: m.GetRival()}
	}
	return grants
}

func termToProto(t store.Term) *peerv1.Term { return &peerv1.Term{Epoch: t.Epoch, Nonce: t.Nonce} }

func termFromProto(m *peerv1.Term) store.Term {
	return store.Term{Epoch: m.GetEpoch(), Nonce: m.GetNonce()}
}

func stampToProto(s permit.Stamp) *peerv1.TokenStamp {
	return &peerv1.TokenStamp{Epoch: s.Epoch, N: s.N}
}

func stampFromProto(m *peerv1.TokenStamp) permit.Stamp {
	return permit.Stamp{Epoch: m.GetEpoch(), N: m.GetN()}
}
