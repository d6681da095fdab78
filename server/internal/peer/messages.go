package peer

import (
	"context"
	"errors"
	"time"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// Each message between partitions has an rpc. What follows is, for each, how it is sent and how it is served.

// Ask implements [message.Partitions].
func (c *Calls) Ask(ctx context.Context, p int, m message.Message) (any, error) {
	switch m := m.(type) {
	case message.RegisterDependencies:
		return c.register(ctx, p, m)
	case message.DeliverNotice:
		return c.release(ctx, p, m)
	case message.StillWaits:
		return c.waits(ctx, p, m)
	case message.KeepsTimes:
		return c.keeps(ctx, p, m)
	case message.ApplyShare:
		return c.applyShare(ctx, p, m)
	case message.DeleteByPrefix:
		return c.deleteIn(ctx, p, m)
	case message.RedriveDead:
		return c.redriveIn(ctx, p, m)
	case message.PauseQueue:
		return c.pauseIn(ctx, p, m)
	case message.ChangeKey:
		return c.changeKey(ctx, p, m)
	case message.AskRoom:
		return c.askRoom(ctx, p, m)
	case message.CountUsage:
		return c.countUsage(ctx, p, m)
	case message.TakeChanges:
		return c.takeChanges(ctx, p, m)
	case message.PurgeQueue:
		return c.purgeIn(ctx, p, m)
	case message.RelayReports:
		return c.relay(ctx, p, m)
	case message.RequestPermits:
		return c.requestPermits(ctx, p, m)
	case message.DeliverPermits:
		return struct{}{}, c.deliverPermits(ctx, p, m)
	case message.LimitStands:
		return c.limitStands(ctx, p, m)
	case message.RecordEvents:
		return c.recordEvents(ctx, p, m)
	case message.RecordAudit:
		return struct{}{}, c.recordAudit(ctx, p, m)
	case message.Command:
		return c.command(ctx, p, m)
	case message.Commands:
		return c.commands(ctx, p, m)
	case message.ForgetCommands:
		return struct{}{}, c.forgetCommands(ctx, p, m)
	case message.PutJob:
		return c.putJob(ctx, m)
	case message.PutJobs:
		return c.putJobs(ctx, m)
	case message.PatchJob:
		return c.patchJob(ctx, m)
	}
	return nil, carillon.Errorf(carillon.Internal, "", "%T has no form on the wire", m)
}

// ask sends a message to a partition of this node.
func ask[R any](ctx context.Context, s *Server, partition int32, m message.Query[R]) (R, error) {
	return message.Send(ctx, s.served.Services, int(partition), m)
}

func (c *Calls) register(ctx context.Context, p int, m message.RegisterDependencies) ([]bool, error) {
	req := &peerv1.RegisterRequest{NotAfter: c.notAfter(ctx), Partition: int32(p)}
	for _, d := range m.Dependencies {
		req.Edges = append(req.Edges, dependencyToProto(d))
	}
	reply, err := c.service.Register(ctx, req)
	return reply.GetExist(), err
}

// Register implements the rpc.
func (s *Server) Register(ctx context.Context, m *peerv1.RegisterRequest) (*peerv1.RegisterResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.RegisterResponse, error) {
		dependencies := make([]message.Dependency, len(m.GetEdges()))
		for i, e := range m.GetEdges() {
			dependencies[i] = dependencyFromProto(e)
		}
		exist, err := ask(ctx, s, m.GetPartition(), message.RegisterDependencies{Dependencies: dependencies})
		return &peerv1.RegisterResponse{Exist: exist}, err
	})
}

func (c *Calls) release(ctx context.Context, p int, m message.DeliverNotice) (message.Answer, error) {
	n := m.Notice
	reply, err := c.service.Release(ctx, &peerv1.ReleaseRequest{NotAfter: c.notAfter(ctx), Partition: int32(p),
		Edge: dependencyToProto(n.Dependency), By: n.By.String(),
		Order: stampToProto(n.Stamp)})
	return message.Answer(reply.GetAnswer()), err
}

// Release implements the rpc.
func (s *Server) Release(ctx context.Context, m *peerv1.ReleaseRequest) (*peerv1.ReleaseResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.ReleaseResponse, error) {
		by, err := store.ParseRunID(m.GetBy())
		if err != nil {
			return nil, carillon.WithField(err, "by")
		}
		notice := message.Notice{Dependency: dependencyFromProto(m.GetEdge()), By: by,
			Stamp: stampFromProto(m.GetOrder())}
		answer, err := ask(ctx, s, m.GetPartition(), message.DeliverNotice{Notice: notice})
		return &peerv1.ReleaseResponse{Answer: peerv1.ReleaseResponse_Answer(answer)}, err
	})
}

func (c *Calls) waits(ctx context.Context, p int, m message.StillWaits) (bool, error) {
	reply, err := c.service.Waits(ctx, &peerv1.WaitsRequest{NotAfter: c.notAfter(ctx), Partition: int32(p),
		Edge: dependencyToProto(m.Dependency)})
	return reply.GetWaits(), err
}

// Waits implements the rpc.
func (s *Server) Waits(ctx context.Context, m *peerv1.WaitsRequest) (*peerv1.WaitsResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.WaitsResponse, error) {
		waits, err := ask(ctx, s, m.GetPartition(),
			message.StillWaits{Dependency: dependencyFromProto(m.GetEdge())})
		return &peerv1.WaitsResponse{Waits: waits}, err
	})
}

func (c *Calls) keeps(ctx context.Context, p int, m message.KeepsTimes) (bool, error) {
	reply, err := c.service.Keeps(ctx, &peerv1.KeepsRequest{NotAfter: c.notAfter(ctx), Partition: int32(p),
		Job: wire.JobToProto(m.Job)})
	return reply.GetKeeps(), err
}

// Keeps implements the rpc.
func (s *Server) Keeps(ctx context.Context, m *peerv1.KeepsRequest) (*peerv1.KeepsResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.KeepsResponse, error) {
		job, err := wire.JobFromProto(m.GetJob())
		if err != nil {
			return nil, wire.Within("job", err)
		}
		keeps, err := ask(ctx, s, m.GetPartition(), message.KeepsTimes{Job: &job})
		return &peerv1.KeepsResponse{Keeps: keeps}, err
	})
}

func (c *Calls) applyShare(ctx context.Context, p int, m message.ApplyShare) ([]carillon.PutResult, error) {
	req := shareToProto(m.Share)
	req.NotAfter, req.Partition = c.notAfter(ctx), int32(p)
	reply, err := c.service.ApplyShare(ctx, req)
	if err == nil && reply.GetOtherTerm() != nil {
		err = message.OtherTerm(p, &message.OtherTermError{Term: termFromProto(reply.GetOtherTerm())})
	}
	if err != nil || reply.GetStoredBefore() {
		return nil, err
	}
	puts := make([]carillon.PutResult, len(reply.GetPuts()))
	for i, put := range reply.GetPuts() {
		if puts[i], err = wire.PutFromProto(put); err != nil {
			return nil, err
		}
		if i < len(m.Share.Reqs) && puts[i].Job.Data.Ref == nil {
			puts[i].Job.Data = m.Share.Reqs[i].Job.Data // the answer leaves it out
		}
	}
	return puts, nil
}

// ApplyShare implements the rpc.
func (s *Server) ApplyShare(ctx context.Context,
	m *peerv1.ApplyShareRequest) (*peerv1.ApplyShareResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.ApplyShareResponse, error) {
		share, err := shareFromProto(m)
		if err != nil {
			return nil, err
		}
		puts, err := ask(ctx, s, m.GetPartition(), message.ApplyShare{Share: share})
		if other, refused := errors.AsType[*message.OtherTermError](err); refused {
			return &peerv1.ApplyShareResponse{OtherTerm: termToProto(other.Term)}, nil
		}
		return putsToProto(puts), err
	})
}

func (c *Calls) deleteIn(ctx context.Context, p int, m message.DeleteByPrefix) (int, error) {
	reply, err := c.service.DeleteIn(ctx, &peerv1.DeleteInRequest{NotAfter: c.notAfter(ctx), Partition: int32(p),
		Namespace: m.Namespace, Prefix: m.Prefix})
	return int(reply.GetDeleted()), err
}

// DeleteIn implements the rpc.
func (s *Server) DeleteIn(ctx context.Context, m *peerv1.DeleteInRequest) (*peerv1.DeleteInResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.DeleteInResponse, error) {
		n, err := ask(ctx, s, m.GetPartition(),
			message.DeleteByPrefix{Namespace: m.GetNamespace(), Prefix: m.GetPrefix()})
		return &peerv1.DeleteInResponse{Deleted: int64(n)}, err
	})
}

func (c *Calls) redriveIn(ctx context.Context, p int, m message.RedriveDead) (int, error) {
	reply, err := c.service.RedriveIn(ctx, &peerv1.RedriveInRequest{NotAfter: c.notAfter(ctx),
		Partition: int32(p), Namespace: m.Namespace, Job: m.Job})
	return int(reply.GetRedriven()), err
}

// RedriveIn implements the rpc.
func (s *Server) RedriveIn(ctx context.Context,
	m *peerv1.RedriveInRequest) (*peerv1.RedriveInResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.RedriveInResponse, error) {
		n, err := ask(ctx, s, m.GetPartition(), message.RedriveDead{Namespace: m.GetNamespace(), Job: m.GetJob()})
		return &peerv1.RedriveInResponse{Redriven: int64(n)}, err
	})
}

func (c *Calls) relay(ctx context.Context, p int, m message.RelayReports) (message.RelayResult, error) {
	req := reportsToProto(m)
	req.NotAfter, req.Partition = c.notAfter(ctx), int32(p)
	reply, err := c.service.Hear(ctx, req)
	return message.RelayResult{Accepted: reply.GetAccepted(), Stale: reply.GetStale()}, err
}

// Hear implements the rpc.
func (s *Server) Hear(ctx context.Context, m *peerv1.HearRequest) (*peerv1.HearResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.HearResponse, error) {
		reports, bad := reportsFromProto(m)
		result, err := ask(ctx, s, m.GetPartition(), reports)
		return &peerv1.HearResponse{Accepted: result.Accepted, Stale: append(result.Stale, bad...)}, err
	})
}

func (c *Calls) requestPermits(ctx context.Context, p int,
	m message.RequestPermits) ([]message.PermitGrant, error) {
	req := &peerv1.AskTokensRequest{NotAfter: c.notAfter(ctx), Partition: int32(p),
		From: int32(m.From.Partition), Term: termToProto(m.From.Term)}
	for _, r := range m.Requests {
		req.Asks = append(req.Asks, &peerv1.TokenAsk{Namespace: r.Namespace, Key: r.Key,
			Stamp: stampToProto(r.Stamp), Hold: int64(r.Hold), Want: int64(r.Want), Order: r.Order,
			Spent: r.Spent})
	}
	reply, err := c.service.AskTokens(ctx, req)
	return grantsFromProto(reply.GetGrants()), err
}

// AskTokens implements the rpc.
func (s *Server) AskTokens(ctx context.Context,
	m *peerv1.AskTokensRequest) (*peerv1.AskTokensResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.AskTokensResponse, error) {
		requests := make([]message.PermitRequest, len(m.GetAsks()))
		for i, a := range m.GetAsks() {
			requests[i] = message.PermitRequest{Limit: delivery.Limit{Namespace: a.GetNamespace(), Key: a.GetKey()},
				Stamp: stampFromProto(a.GetStamp()), Hold: int(a.GetHold()), Want: int(a.GetWant()), Order: a.GetOrder(),
				Spent: a.GetSpent()}
		}
		from := message.Asker{Partition: int(m.GetFrom()), Term: termFromProto(m.GetTerm())}
		grants, err := ask(ctx, s, m.GetPartition(), message.RequestPermits{From: from, Requests: requests})
		return &peerv1.AskTokensResponse{Grants: grantsToProto(grants)}, err
	})
}

func (c *Calls) deliverPermits(ctx context.Context, p int, m message.DeliverPermits) error {
	_, err := c.service.GiveTokens(ctx, &peerv1.GiveTokensRequest{NotAfter: c.notAfter(ctx), Partition: int32(p),
		Grants: grantsToProto(m.Grants)})
	return err
}

// GiveTokens implements the rpc.
func (s *Server) GiveTokens(ctx context.Context,
	m *peerv1.GiveTokensRequest) (*peerv1.GiveTokensResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.GiveTokensResponse, error) {
		_, err := ask(ctx, s, m.GetPartition(), message.DeliverPermits{Grants: grantsFromProto(m.GetGrants())})
		return &peerv1.GiveTokensResponse{}, err
	})
}

func (c *Calls) limitStands(ctx context.Context, p int, m message.LimitStands) (message.Standing, error) {
	reply, err := c.service.LimitStands(ctx, &peerv1.LimitStandsRequest{NotAfter: c.notAfter(ctx),
		Partition: int32(p), Namespace: m.Namespace, Key: m.Key, From: int32(m.From), Order: m.Order})
	s := message.Standing{Held: int(reply.GetHeld()), Before: int(reply.GetBefore()), Next: reply.GetNext(),
		Every: time.Duration(reply.GetEvery())}
	for _, p := range reply.GetHolders() {
		s.Holders = append(s.Holders, int(p))
	}
	return s, err
}

// LimitStands implements the rpc.
func (s *Server) LimitStands(ctx context.Context,
	m *peerv1.LimitStandsRequest) (*peerv1.LimitStandsResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.LimitStandsResponse, error) {
		stands, err := ask(ctx, s, m.GetPartition(), message.LimitStands{
			Limit: delivery.Limit{Namespace: m.GetNamespace(), Key: m.GetKey()}, From: int(m.GetFrom()),
			Order: m.GetOrder()})
		reply := &peerv1.LimitStandsResponse{Held: int64(stands.Held), Before: int64(stands.Before),
			Next: stands.Next, Every: int64(stands.Every)}
		for _, p := range stands.Holders {
			reply.Holders = append(reply.Holders, int32(p))
		}
		return reply, err
	})
}

func (c *Calls) recordEvents(ctx context.Context, p int, m message.RecordEvents) (uint64, error) {
	reply, err := c.service.RecordEvents(ctx, &peerv1.RecordEventsRequest{NotAfter: c.notAfter(ctx),
		Partition: int32(p), Again: m.Again})
	return reply.GetFrom(), err
}

// RecordEvents implements the rpc.
func (s *Server) RecordEvents(ctx context.Context,
	m *peerv1.RecordEventsRequest) (*peerv1.RecordEventsResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.RecordEventsResponse, error) {
		from, err := ask(ctx, s, m.GetPartition(), message.RecordEvents{Again: m.GetAgain()})
		return &peerv1.RecordEventsResponse{From: from}, err
	})
}
