package peer

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/message"
)

func (c *Calls) command(ctx context.Context, p int, m message.Command) (bool, error) {
	req := changeToProto(&m)
	req.NotAfter, req.Partition = c.notAfter(ctx), int32(p)
	reply, err := c.service.Command(ctx, req)
	return reply.GetDoneBefore(), err
}

// changeToProto writes a command without when and where to.
func changeToProto(m *message.Command) *peerv1.CommandRequest {
	req := &peerv1.CommandRequest{Of: commandToProto(message.CommandID{Key: m.Key, Request: m.Request})}
	req.IfAbsent, req.IfGeneration = m.IfAbsent, m.IfGeneration
	if m.KeepFor != 0 {
		req.KeepFor = durationpb.New(m.KeepFor)
	}
	switch {
	case m.Job != nil:
		req.Put = wire.JobToProto(m.Job)
	case m.Trigger != nil:
		req.Trigger = wire.TriggerToProto(m.Key, m.Trigger)
	case m.Complete != nil:
		req.Complete = wire.CompletionToProto(m.Key.Namespace, m.Complete)
	}
	if !m.SeenAt.IsZero() {
		req.SeenAt = timestamppb.New(m.SeenAt)
	}
	if e := m.Refusal; e != nil {
		req.Refusal = &peerv1.CommandRefusal{Kind: e.Kind.String(), Field: strings.ToValidUTF8(e.Field, "?"),
			Message: strings.ToValidUTF8(e.Message[:min(len(e.Message), message.MaxRefusal)], "?")}
	}
	return req
}

// Command implements the rpc.
func (s *Server) Command(ctx context.Context, m *peerv1.CommandRequest) (*peerv1.CommandResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.CommandResponse, error) {
		c, err := changeFromProto(m)
		if err != nil {
			return nil, err // its fields are those of the change, as whoever gave the command knows them
		}
		before, err := ask(ctx, s, m.GetPartition(), c)
		return &peerv1.CommandResponse{DoneBefore: before}, err
	})
}

// changeFromProto reads what changeToProto has written.
func changeFromProto(m *peerv1.CommandRequest) (message.Command, error) {
	id := commandFromProto(m.GetOf())
	c := message.Command{Request: id.Request, Key: id.Key, SeenAt: timeOf(m.GetSeenAt()),
		KeepFor: m.GetKeepFor().AsDuration(), IfAbsent: m.GetIfAbsent(), IfGeneration: m.GetIfGeneration()}
	if e := m.GetRefusal(); e != nil {
		c.Refusal = message.NewRefusal(e.GetKind(), e.GetField(), e.GetMessage())
	}
	switch {
	case m.GetPut() != nil:
		job, err := wire.JobFromProto(m.GetPut())
		c.Job = &job
		return c, err
	case m.GetTrigger() != nil:
		o, err := wire.TriggerFromProto(m.GetTrigger())
		c.Trigger = &o
		return c, err
	case m.GetComplete() != nil:
		r, err := wire.CompletionFromProto(m.GetComplete())
		c.Complete = &r
		return c, err
	}
	return c, nil
}

func (c *Calls) commands(ctx context.Context, p int, m message.Commands) ([]message.Decision, error) {
	req := &peerv1.CommandsRequest{NotAfter: c.notAfter(ctx), Partition: int32(p)}
	for i := range m.Commands {
		req.Commands = append(req.Commands, changeToProto(&m.Commands[i]))
	}
	reply, err := c.service.Commands(ctx, req)
	if err != nil {
		return nil, err
	}
	decided := make([]message.Decision, len(m.Commands))
	for i, d := range reply.GetDecisions()[:min(len(decided), len(reply.GetDecisions()))] {
		switch d {
		case peerv1.CommandsResponse_DECISION_DONE:
			decided[i] = message.Done
		case peerv1.CommandsResponse_DECISION_REPEATED:
			decided[i] = message.Repeated
		}
	}
	return decided, nil
}

// Commands implements the rpc.
func (s *Server) Commands(ctx context.Context, m *peerv1.CommandsRequest) (*peerv1.CommandsResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.CommandsResponse, error) {
		all := make([]message.Command, len(m.GetCommands()))
		for i, c := range m.GetCommands() {
			var err error
			if all[i], err = changeFromProto(c); err != nil {
				return nil, err // sent alone, the others are done
			}
		}
		decided, err := ask(ctx, s, m.GetPartition(), message.Commands{Commands: all})
		reply := &peerv1.CommandsResponse{Decisions: make([]peerv1.CommandsResponse_Decision, len(decided))}
		for i, d := range decided {
			reply.Decisions[i] = peerv1.CommandsResponse_Decision(d)
		}
		return reply, err
	})
}

func (c *Calls) forgetCommands(ctx context.Context, p int, m message.ForgetCommands) error {
	req := &peerv1.ForgetCommandsRequest{NotAfter: c.notAfter(ctx), Partition: int32(p)}
	for _, id := range m.Commands {
		req.Commands = append(req.Commands, commandToProto(id))
	}
	_, err := c.service.ForgetCommands(ctx, req)
	return err
}

// ForgetCommands implements the rpc.
func (s *Server) ForgetCommands(ctx context.Context,
	m *peerv1.ForgetCommandsRequest) (*peerv1.ForgetCommandsResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.ForgetCommandsResponse, error) {
		ids := make([]message.CommandID, len(m.GetCommands()))
		for i, c := range m.GetCommands() {
			ids[i] = commandFromProto(c)
		}
		_, err := ask(ctx, s, m.GetPartition(), message.ForgetCommands{Commands: ids})
		return &peerv1.ForgetCommandsResponse{}, err
	})
}

func commandToProto(id message.CommandID) *peerv1.CommandId {
	return &peerv1.CommandId{Namespace: id.Key.Namespace, Name: id.Key.Name, Request: id.Request}
}

func commandFromProto(m *peerv1.CommandId) message.CommandID {
	return message.CommandID{Key: carillon.Key{Namespace: m.GetNamespace(), Name: m.GetName()},
		Request: m.GetRequest()}
}

// timeOf returns a time that may be missing.
func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
