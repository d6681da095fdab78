package etcdapi

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

const (
	// smallRequest is the most bytes of a request that is neither a put nor a transaction.
	smallRequest = 64 << 10
	// perOperation is what an operation, or a condition, of a transaction holds besides its bytes.
	perOperation = 256
)

// request is one that is being read. It is looked at before it is decoded: what is decoded may hold many
// times its bytes.
type request struct {
	proto.Message
	most, operations int
	held             int   // what it holds
	refused          error // in etcd's words, which an error of a codec cannot have
}

// recv reads a request, and returns what it holds. A panic while it is read is an error.
func (s *Service) recv(stream grpc.ServerStream, m proto.Message) (held int64, err error) {
	r := &request{Message: m, most: min(s.options.RequestBytes, smallRequest), operations: s.options.Operations}
	switch m.(type) {
	case *pb.PutRequest, *pb.TxnRequest:
		r.most = s.options.RequestBytes
	}
	if err = grpcapi.Safely(func() error { return stream.RecvMsg(r) }); err == nil {
		err = r.refused
	}
	return int64(r.held), err
}

// Unmarshal implements [encoding.CodecV2].
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*request)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	return r.decode(c.CodecV2, data)
}

// decode decodes the request unless it is too large.
func (r *request) decode(c encoding.CodecV2, data mem.BufferSlice) error {
	r.held = data.Len()
	if r.held > r.most {
		r.refused = rpctypes.ErrGRPCRequestTooLarge
		return nil
	}
	if _, ok := r.Message.(*pb.TxnRequest); !ok {
		return c.Unmarshal(data, r.Message)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	if r.refused = r.checkTxn(whole.ReadOnlyData()); r.refused != nil {
		return nil
	}
	return c.Unmarshal(mem.BufferSlice{whole}, r.Message)
}

// checkTxn refuses the bytes of a transaction that has too many operations or conditions, or another within
// it. Bytes that are no message are left to be refused by who decodes them.
func (r *request) checkTxn(data []byte) (err error) {
	var counts [4]int // by field
	eachBytes(data, func(field protowire.Number, of []byte) bool {
		if field > 3 {
			return true
		}
		counts[field]++
		r.held += perOperation
		switch {
		case counts[field] > r.operations:
			err = rpctypes.ErrGRPCTooManyOps
		case field > 1 && hasTxn(of):
			err = errNested
		}
		return err == nil
	})
	return err
}

// errNested is about a transaction within another.
var errNested = unsupported("a transaction within another", "send its operations by themselves")

// hasTxn reports whether the bytes of an operation have a transaction.
func hasTxn(operation []byte) (has bool) {
	const requestTxn = 4
	eachBytes(operation, func(field protowire.Number, _ []byte) bool {
		has = field == requestTxn
		return !has
	})
	return has
}

// eachBytes calls f with the fields of a message that are messages or bytes, until it returns false or the
// rest is no message.
func eachBytes(data []byte, f func(field protowire.Number, of []byte) bool) {
	for len(data) > 0 {
		field, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(field, kind, data); n < 0 {
			return
		}
		if kind == protowire.BytesType {
			of, _ := protowire.ConsumeBytes(data[:n])
			if !f(field, of) {
				return
			}
		}
		data = data[n:]
	}
}

// unread is a stream whose request is not read: it is refused, whatever it is.
type unread struct{ grpc.ServerStream }

// RecvMsg implements [grpc.ServerStream].
func (unread) RecvMsg(any) error { return nil }
