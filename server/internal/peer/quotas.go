package peer

import (
	"context"

	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/internal/message"
)

func (c *Calls) askRoom(ctx context.Context, p int, m message.AskRoom) (message.Room, error) {
	reply, err := c.service.AskRoom(ctx, &peerv1.AskRoomRequest{NotAfter: c.notAfter(ctx), Partition: int32(p),
		Namespace: m.Namespace, Asker: int32(m.Partition), Has: usageToProto(&m.Has),
		Want: amountToProto(m.Want), More: amountToProto(m.More)})
	return message.Room{Stamp: stampFromProto(reply.GetStamp()), Room: amountFromProto(reply.GetRoom())}, err
}

// AskRoom implements the rpc.
func (s *Server) AskRoom(ctx context.Context, m *peerv1.AskRoomRequest) (*peerv1.AskRoomResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.AskRoomResponse, error) {
		room, err := ask(ctx, s, m.GetPartition(), message.AskRoom{Namespace: m.GetNamespace(),
			Partition: int(m.GetAsker()), Has: usageFromProto(m.GetHas()), Want: amountFromProto(m.GetWant()),
			More: amountFromProto(m.GetMore())})
		return &peerv1.AskRoomResponse{Stamp: stampToProto(room.Stamp), Room: amountToProto(room.Room)}, err
	})
}

func (c *Calls) countUsage(ctx context.Context, p int, m message.CountUsage) (message.Usage, error) {
	reply, err := c.service.CountUsage(ctx, &peerv1.CountUsageRequest{NotAfter: c.notAfter(ctx),
		Partition: int32(p), Namespace: m.Namespace, Stamp: stampToProto(m.Stamp)})
	return usageFromProto(reply.GetUsage()), err
}

// CountUsage implements the rpc.
func (s *Server) CountUsage(ctx context.Context,
	m *peerv1.CountUsageRequest) (*peerv1.CountUsageResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.CountUsageResponse, error) {
		usage, err := ask(ctx, s, m.GetPartition(),
			message.CountUsage{Namespace: m.GetNamespace(), Stamp: stampFromProto(m.GetStamp())})
		return &peerv1.CountUsageResponse{Usage: usageToProto(&usage)}, err
	})
}

func (c *Calls) takeChanges(ctx context.Context, p int, m message.TakeChanges) (message.Changes, error) {
	reply, err := c.service.TakeChanges(ctx, &peerv1.TakeChangesRequest{NotAfter: c.notAfter(ctx),
		Partition: int32(p), Namespace: m.Namespace, N: m.N, More: m.More})
	return message.Changes{N: reply.GetN(), After: reply.GetAfterNs()}, err
}

// TakeChanges implements the rpc.
func (s *Server) TakeChanges(ctx context.Context,
	m *peerv1.TakeChangesRequest) (*peerv1.TakeChangesResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.TakeChangesResponse, error) {
		taken, err := ask(ctx, s, m.GetPartition(),
			message.TakeChanges{Namespace: m.GetNamespace(), N: m.GetN(), More: m.GetMore()})
		return &peerv1.TakeChangesResponse{N: taken.N, AfterNs: taken.After}, err
	})
}

func amountToProto(a message.Amount) *peerv1.QuotaAmount {
	return &peerv1.QuotaAmount{Jobs: a.Jobs, Bytes: a.Bytes}
}

func amountFromProto(m *peerv1.QuotaAmount) message.Amount {
	return message.Amount{Jobs: m.GetJobs(), Bytes: m.GetBytes()}
}

func usageToProto(u *message.Usage) *peerv1.QuotaUsage {
	return &peerv1.QuotaUsage{Counted: u.Counted, Used: amountToProto(u.Used), Room: amountToProto(u.Room),
		Stamp: stampToProto(u.Stamp)}
}

func usageFromProto(m *peerv1.QuotaUsage) message.Usage {
	return message.Usage{Counted: m.GetCounted(), Used: amountFromProto(m.GetUsed()),
		Room: amountFromProto(m.GetRoom()), Stamp: stampFromProto(m.GetStamp())}
}
