package etcdapi

import (
	"context"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

// recorded makes a call, and has it recorded who makes it, if it may change something. It is around the calls
// of the service alone: only there the request is read, and only here it is known what Carillon calls that.
func (s *Service) recorded(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (answer any, err error) {
	m, _ := req.(proto.Message)
	if s.options.Audit == nil || readsOnly(m) {
		return handler(ctx, req)
	}
	ctx, end, err := s.options.Audit.Begin(ctx, info.FullMethod, named(m))
	if err != nil {
		return nil, err
	}
	err = grpcapi.Safely(func() (err error) {
		answer, err = handler(ctx, req)
		return err
	})
	if unrecorded := end(answer, kindly(err)); err == nil {
		err = unrecorded
	}
	return answer, err
}

// readsOnly reports whether a transaction changes nothing, whatever others may.
func readsOnly(m proto.Message) bool {
	txn, ok := m.(*pb.TxnRequest)
	if !ok {
		return false
	}
	for _, op := range slices.Concat(txn.GetSuccess(), txn.GetFailure()) {
		if op.GetRequestRange() == nil {
			return false
		}
	}
	return true
}

// named is a request with the namespace and the name in Carillon of what it is about: of a transaction what
// the first operation is about that changes something, and the namespace if it is that of all of those.
func named(m proto.Message) access.Named {
	about := access.Named{Message: m}
	switch m := m.(type) {
	case *pb.PutRequest:
		about.Namespace, about.Resource = nameFor(spanOf(m.GetKey(), nil))
	case *pb.DeleteRangeRequest:
		about.Namespace, about.Resource = nameFor(spanOf(m.GetKey(), m.GetRangeEnd()))
	case *pb.TxnRequest:
		first := true
		for _, op := range slices.Concat(m.GetSuccess(), m.GetFailure()) {
			var of access.Named
			switch {
			case op.GetRequestPut() != nil:
				of = named(op.GetRequestPut())
			case op.GetRequestDeleteRange() != nil:
				of = named(op.GetRequestDeleteRange())
			default:
				continue // it reads
			}
			if first {
				about.Namespace, about.Resource, first = of.Namespace, of.Resource, false
			} else if about.Namespace != of.Namespace {
				about.Namespace = ""
			}
		}
	}
	return about
}

// nameFor returns what Carillon calls the job of a key. Where there may be several, or the key can be read in
// more than one way, it is the key itself, or what all keys of the span begin with.
func nameFor(sp span) (namespace, resource string) {
	key := sp.prefix()
	plain := strings.ToValidUTF8(key, "\ufffd") // keys are bytes, entries have text
	for _, prefix := range [...]string{daprrecord.JobPrefix, daprrecord.CounterPrefix} {
		name, of := strings.CutPrefix(plain, prefix)
		if !of {
			continue
		}
		for _, kind := range kinds {
			if rest, of := strings.CutPrefix(name, kind.level+between); of {
				return levelsOf(plain, rest, kind.prefix, kind.levels, sp.single())
			}
		}
	}
	return "", plain
}

// levelsOf is nameFor for what follows the kind of a job in its key.
func levelsOf(key, rest, prefix string, levels int, single bool) (namespace, resource string) {
	namespace, rest, found := strings.Cut(rest, between)
	if !found {
		return "", key
	}
	all := strings.Split(rest, between)
	if !single || len(all) != levels+1 || all[levels] == "" {
		return namespace, key
	}
	for i, level := range all {
		all[i] = carillon.EscapeLevel(level)
	}
	return namespace, prefix + strings.Join(all, "/")
}

// kindly is an error with its kind, for the record: what tools are told has a code alone.
func kindly(err error) error {
	if err == nil || !grpcapi.FromGRPC(err) {
		return err
	}
	e := *wire.ToError(wire.ErrorFromStatus(err))
	e.Err = err
	return &e
}
