package etcdapi

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Txn implements the rpc. Jobs are in partitions, so what etcd does in one step is not one here: puts alone
// are checked whole before the first is made, and each job is one change; reads and deletes are made in their
// order. Both can be sent again after an error. What would need one step is refused.
func (k kvServer) Txn(ctx context.Context, m *pb.TxnRequest) (*pb.TxnResponse, error) {
	puts, err := k.s.checkTxn(m)
	if err != nil {
		return nil, err
	}
	if puts != nil {
		return k.s.putTxn(ctx, puts)
	}
	if err := hold(ctx, k.s.answers); err != nil {
		return nil, err
	}
	return k.s.readTxn(ctx, m)
}

// checkTxn refuses what cannot be done. puts are the operations if they are all puts.
func (s *Service) checkTxn(m *pb.TxnRequest) (puts []*pb.PutRequest, err error) {
	ops := m.GetSuccess()
	switch {
	case len(m.GetCompare()) > 0:
		return nil, unsupported("a transaction under conditions",
			"jobs are in partitions, and what is compared could change before the rest is done; send it without")
	case len(ops) > s.options.Operations:
		return nil, rpctypes.ErrGRPCTooManyOps
	}
	for i, op := range ops {
		switch of := op.GetRequest().(type) {
		case *pb.RequestOp_RequestPut:
			puts = append(puts, of.RequestPut)
		case *pb.RequestOp_RequestRange:
			err = s.checkRange(of.RequestRange)
		case *pb.RequestOp_RequestDeleteRange:
			err = checkDelete(of.RequestDeleteRange)
		default:
			err = errNested
		}
		if err != nil {
			return nil, inTxn(i, err)
		}
	}
	if len(puts) > 0 && len(puts) < len(ops) {
		return nil, unsupported("a transaction of puts and others", "send the puts by themselves")
	}
	return puts, nil
}

func (s *Service) putTxn(ctx context.Context, puts []*pb.PutRequest) (*pb.TxnResponse, error) {
	answers, err := s.putAll(ctx, puts)
	if err != nil {
		return nil, err
	}
	m := &pb.TxnResponse{Succeeded: true, Header: s.header(0)}
	for _, put := range answers {
		put.Header = m.Header
		m.Responses = append(m.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: put}})
	}
	return m, nil
}

func (s *Service) readTxn(ctx context.Context, m *pb.TxnRequest) (*pb.TxnResponse, error) {
	answer, left := &pb.TxnResponse{Succeeded: true}, s.options.AnswerBytes
	for i, op := range m.GetSuccess() {
		one := &pb.ResponseOp{}
		var err error
		if of := op.GetRequestRange(); of != nil {
			var read *pb.RangeResponse
			read, err = s.read(ctx, of, &left)
			one.Response = &pb.ResponseOp_ResponseRange{ResponseRange: read}
		} else {
			var deleted *pb.DeleteRangeResponse
			deleted, err = s.deleteRange(ctx, op.GetRequestDeleteRange(), &left)
			one.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: deleted}
		}
		if err != nil {
			return nil, inTxn(i, err)
		}
		answer.Responses = append(answer.Responses, one)
	}
	answer.Header = s.header(0)
	return answer, nil
}

// inTxn says which operation an error is about; those before it are done.
func inTxn(i int, err error) error {
	if st, ok := status.FromError(err); ok && st.Code() != codes.Unknown {
		return status.Error(st.Code(), fmt.Sprintf("%s (operation %d of the transaction)", st.Message(), i+1))
	}
	return err
}

// Compact implements the rpc. No old revision is kept anyway.
func (k kvServer) Compact(_ context.Context, m *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	if m.GetRevision() > k.s.clock.at(0) {
		return nil, rpctypes.ErrGRPCFutureRev
	}
	return &pb.CompactionResponse{Header: k.s.header(0)}, nil
}
