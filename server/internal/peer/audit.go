package peer

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store/codec"
)

// Who makes a call, by the node that was asked, goes with it to the owner of the partition, which believes it
// of nodes alone; and back, that it is recorded with the change.
const (
	auditHeader  = "carillon-audit-bin" // the entry
	auditTrailer = "carillon-audited"
)

// audited adds to a call what is to be recorded of it, if anything is. heard is called when it has ended.
func audited(ctx context.Context, opts []grpc.CallOption) (_ context.Context, _ []grpc.CallOption,
	heard func()) {
	c := audit.From(ctx)
	if c == nil {
		return ctx, opts, func() {}
	}
	e := c.Entry()
	var trailer metadata.MD
	return metadata.AppendToOutgoingContext(ctx, auditHeader, string(codec.AppendAudit(nil, &e))),
		append(opts, grpc.Trailer(&trailer)), func() {
			if len(trailer.Get(auditTrailer)) > 0 {
				c.Stored()
			}
		}
}

// hearAudited returns the context of a call with what is to be recorded of it. The caller is a node. told is
// called before the answer.
func hearAudited(ctx context.Context) (_ context.Context, told func(), err error) {
	said := metadata.ValueFromIncomingContext(ctx, auditHeader)
	if len(said) == 0 {
		return ctx, func() {}, nil
	}
	e, err := codec.DecodeAudit([]byte(said[0]))
	if err != nil {
		return ctx, nil, carillon.Errorf(carillon.InvalidArgument, auditHeader, "%w", err)
	}
	c := audit.NewCall(&e)
	return audit.With(ctx, c), func() {
		if c.IsStored() {
			_ = grpc.SetTrailer(ctx, metadata.Pairs(auditTrailer, "1")) // otherwise the caller records it again
		}
	}, nil
}

func (c *Calls) recordAudit(ctx context.Context, p int, m message.RecordAudit) error {
	_, err := c.service.RecordAudit(ctx, &peerv1.RecordAuditRequest{NotAfter: c.notAfter(ctx),
		Partition: int32(p), Entry: codec.AppendAudit(nil, &m.Entry)})
	return err
}

// RecordAudit implements the rpc.
func (s *Server) RecordAudit(ctx context.Context,
	m *peerv1.RecordAuditRequest) (*peerv1.RecordAuditResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.RecordAuditResponse, error) {
		e, err := codec.DecodeAudit(m.GetEntry())
		if err != nil {
			return nil, carillon.Errorf(carillon.InvalidArgument, "entry", "%w", err)
		}
		_, err = ask(ctx, s, m.GetPartition(), message.RecordAudit{Entry: e})
		return &peerv1.RecordAuditResponse{}, err
	})
}
