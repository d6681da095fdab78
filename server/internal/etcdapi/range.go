package etcdapi

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// kvServer reads and writes keys.
type kvServer struct {
	pb.UnsafeKVServer
	s *Service
}

// Range implements the rpc.
func (k kvServer) Range(ctx context.Context, m *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := k.s.checkRange(m); err != nil {
		return nil, err
	}
	turns := k.s.answers
	if len(m.GetRangeEnd()) == 0 {
		turns = k.s.singles
	}
	if err := hold(ctx, turns); err != nil {
		return nil, err
	}
	left := k.s.options.AnswerBytes
	return k.s.read(ctx, m, &left)
}

// RangeStream implements the rpc.
func (kvServer) RangeStream(*pb.RangeRequest, pb.KV_RangeStreamServer) error {
	return unsupported("a range as a stream", "ask for it without")
}

// unsupported is the answer to what no tool for Dapr's scheduler asks for.
func unsupported(what, instead string) error {
	return status.Errorf(codes.Unimplemented, "%s is not had here, where Carillon shows the jobs of Dapr's scheduler "+
		"as that keeps them in etcd: %s", what, instead)
}

// checkRange refuses what cannot be answered. Old revisions are not kept.
func (s *Service) checkRange(m *pb.RangeRequest) error {
	_, order := pb.RangeRequest_SortOrder_name[int32(m.GetSortOrder())]
	_, target := pb.RangeRequest_SortTarget_name[int32(m.GetSortTarget())]
	switch {
	case len(m.GetKey()) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case !order || !target:
		return rpctypes.ErrGRPCInvalidSortOption
	case m.GetRevision() > s.clock.at(0):
		return rpctypes.ErrGRPCFutureRev
	case m.GetRevision() > 0:
		return rpctypes.ErrGRPCCompacted
	}
	return nil
}

// read answers a valid request with at most so many bytes, which it takes off what is left.
func (s *Service) read(ctx context.Context, m *pb.RangeRequest, left *int) (*pb.RangeResponse, error) {
	a := answer{limit: min(max(m.GetLimit(), 0), maxLimit), order: orderOf(m), most: *left}
	values := !m.GetCountOnly() && (!m.GetKeysOnly() || m.GetSortTarget() == pb.RangeRequest_VALUE)
	err := s.each(ctx, spanOf(m.GetKey(), m.GetRangeEnd()), values, func(item found) error {
		a.newest = max(a.newest, item.ModRevision)
		a.count++
		if m.GetCountOnly() || !within(m, item.KeyValue) {
			return nil
		}
		return a.add(item.KeyValue)
	})
	if err != nil {
		return nil, err
	}
	a.cut()
	answer := &pb.RangeResponse{Header: s.header(a.newest), Kvs: a.items, Count: a.count,
		More: a.limit > 0 && a.kept > a.limit}
	if m.GetKeysOnly() {
		for _, item := range answer.Kvs {
			item.Value = nil
		}
	}
	*left -= a.bytes
	return answer, nil
}

// within reports whether a record's revisions are those asked for.
func within(m *pb.RangeRequest, item *mvccpb.KeyValue) bool {
	in := func(revision, least, most int64) bool {
		return (least == 0 || revision >= least) && (most == 0 || revision <= most)
	}
	return in(item.ModRevision, m.GetMinModRevision(), m.GetMaxModRevision()) &&
		in(item.CreateRevision, m.GetMinCreateRevision(), m.GetMaxCreateRevision())
}

// orderOf returns the order of an answer. Records that are alike by it are by their keys.
func orderOf(m *pb.RangeRequest) func(a, b *mvccpb.KeyValue) int {
	by := func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) }
	switch m.GetSortTarget() {
	case pb.RangeRequest_VERSION:
		by = func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.Version, b.Version) }
	case pb.RangeRequest_CREATE:
		by = func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) }
	case pb.RangeRequest_MOD:
		by = func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.ModRevision, b.ModRevision) }
	case pb.RangeRequest_VALUE:
		by = func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Value, b.Value) }
	}
	down := m.GetSortOrder() == pb.RangeRequest_DESCEND
	return func(a, b *mvccpb.KeyValue) int {
		order := by(a, b)
		if down {
			order = -order
		}
		return cmp.Or(order, bytes.Compare(a.Key, b.Key))
	}
}

// answer keeps the records of an answer, of which it may have only the first: it never holds many more.
type answer struct {
	limit  int64 // 0: none
	order  func(a, b *mvccpb.KeyValue) int
	most   int // bytes
	items  []*mvccpb.KeyValue
	bytes  int   // of the items
	count  int64 // of the keys of the range
	kept   int64 // of those that are asked for, whether they are in the answer or not
	newest int64 // revision of a key of the range
}

// maxLimit is more than there can be, and less than what cannot be counted with.
const maxLimit = 1 << 40

// perRecord is what a record needs in an answer besides its key and value.
const perRecord = 48

func sizeOf(item *mvccpb.KeyValue) int { return len(item.Key) + len(item.Value) + perRecord }

// add adds a record.
func (a *answer) add(item *mvccpb.KeyValue) error {
	a.kept++
	a.items = append(a.items, item)
	a.bytes += sizeOf(item)
	if a.bytes <= a.most && (a.limit == 0 || int64(len(a.items)) < 2*a.limit+1000) {
		return nil
	}
	a.cut()
	if a.bytes > a.most {
		return status.Errorf(codes.ResourceExhausted, "the answer is larger than %d bytes: ask for fewer keys at a time, "+
			"with a longer prefix or a limit", a.most)
	}
	return nil
}

// cut leaves those that come first.
func (a *answer) cut() {
	slices.SortFunc(a.items, a.order)
	if a.limit > 0 && int64(len(a.items)) > a.limit {
		clear(a.items[a.limit:])
		a.items = a.items[:a.limit]
	}
	a.bytes = 0
	for _, item := range a.items {
		a.bytes += sizeOf(item)
	}
}
