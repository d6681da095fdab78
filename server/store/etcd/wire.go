package etcd

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	grpcpeer "google.golang.org/grpc/peer"
)

// wire is the connection to etcd.
type wire struct {
	client  *clientv3.Client
	kv      pb.KVClient
	timeout time.Duration
	// mostOps is how many operations a transaction may have: what etcd's --max-txn-ops is, as far as it is
	// known.
	mostOps atomic.Int64
}

const (
	// commitParts is how often a commit without an answer is sent in the time that an answer may take: one that
	// etcd lost with its leader is never answered.
	commitParts = 4
	// usualOps is etcd's default of --max-txn-ops.
	usualOps = 128
	// mostBytes is how large a request may be, below etcd's default of --max-request-bytes, 1.5 MiB.
	mostBytes = 1 << 20
	// mostRecord is the largest value that is written: with its key and its transaction it fits.
	mostRecord = 1_400_000
)

// How a member that is cut off is found out.
const (
	dialTimeout      = 3 * time.Second
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 3 * time.Second
	// How soon a connection is made again: gRPC's own waits are for servers of many more clients.
	firstBackoff   = 50 * time.Millisecond
	longestBackoff = time.Second
)

func dial(o *Options) (*wire, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: o.endpoints(), Username: o.Username, Password: o.Password, TLS: o.TLS,
		DialTimeout: dialTimeout, DialKeepAliveTime: keepaliveTime, DialKeepAliveTimeout: keepaliveTimeout,
		MaxCallSendMsgSize: 16 << 20, PermitWithoutStream: true, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: firstBackoff, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: longestBackoff},
			MinConnectTimeout: dialTimeout,
		})},
	})
	if err != nil {
		return nil, &callError{err: err} // with a user, New asks for a token
	}
	w := &wire{client: c, kv: clientv3.RetryKVClient(c), timeout: o.Timeout}
	w.mostOps.Store(usualOps)
	return w, nil
}

// leading asks each member to refuse a request while it knows no leader, so that one that is cut off from the
// others says so at once.
func (w *wire) leading(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(clientv3.WithRequireLeader(ctx), w.timeout)
}

// get reads a range. It may be done again without harm, and is.
func (w *wire) get(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	ctx, cancel := w.leading(ctx)
	defer cancel()
	return again(ctx, elsewhere, func(*grpcpeer.Peer) (*pb.RangeResponse, error) { return w.kv.Range(ctx, r) })
}

// txn does a transaction once, or, if a member has not begun it, at another one.
func (w *wire) txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	return w.try(ctx, r, elsewhere)
}

// commit does a transaction that may be done again, once or not at all. It takes no longer than a part of the
// time that an answer may take.
func (w *wire) commit(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), w.timeout/commitParts)
	defer cancel()
	return again(ctx, elsewhere, func(reached *grpcpeer.Peer) (*pb.TxnResponse, error) {
		return w.kv.Txn(ctx, r, grpc.Peer(reached))
	})
}

// try does a transaction, and again while an error allows it.
func (w *wire) try(ctx context.Context, r *pb.TxnRequest, allows func(error) bool) (*pb.TxnResponse, error) {
	ctx, cancel := w.leading(ctx)
	defer cancel()
	return again(ctx, allows, func(reached *grpcpeer.Peer) (*pb.TxnResponse, error) {
		return w.kv.Txn(ctx, r, grpc.Peer(reached))
	})
}

// again calls f, and again after a pause while its error allows it. f sets whom its request has reached, if
// that matters.
func again[T any](ctx context.Context, allows func(error) bool,
	f func(reached *grpcpeer.Peer) (T, error)) (answer T, err error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		var reached grpcpeer.Peer
		if answer, err = f(&reached); err == nil {
			return answer, nil
		}
		failed := &callError{err: err, sent: reached.Addr != nil}
		if !allows(failed) {
			return answer, failed
		}
		if !wait(ctx, pause) {
			return answer, failed
		}
	}
}

// wait waits for some time, and reports whether ctx goes on.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

const (
	firstPause   = 5 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// read does a transaction that only reads.
func (w *wire) read(ctx context.Context, ranges ...*pb.RangeRequest) ([]*pb.RangeResponse, int64, error) {
	r := &pb.TxnRequest{}
	for _, one := range ranges {
		r.Success = append(r.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: one}})
	}
	answer, err := w.try(ctx, r, func(err error) bool { return elsewhere(err) || away(err) })
	if err != nil {
		return nil, 0, err
	}
	out := make([]*pb.RangeResponse, len(ranges))
	for i := range out {
		if out[i] = answer.Responses[i].GetResponseRange(); out[i] == nil {
			return nil, 0, fmt.Errorf("store: etcd has answered a read with %T", answer.Responses[i].Response)
		}
	}
	return out, answer.Header.Revision, nil
}

// learn finds out how many operations a transaction may have: one of reads of nothing is refused or not. A
// cluster whose members differ is taken for the least of them as soon as one refuses.
func (w *wire) learn(ctx context.Context, nothing []byte) error {
	for _, n := range []int{8192, 1024} {
		r := &pb.TxnRequest{}
		for range n {
			r.Success = append(r.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{
				RequestRange: &pb.RangeRequest{Key: nothing, CountOnly: true}}})
		}
		_, err := w.txn(ctx, r)
		switch {
		case err == nil:
			w.mostOps.Store(int64(n))
			return nil
		case !is(err, rpctypes.ErrGRPCTooManyOps):
			return err
		}
	}
	return nil
}

// one is the range of a single key.
func one(key []byte) *pb.RangeRequest { return &pb.RangeRequest{Key: key} }

// under is the range of all keys that begin with a prefix.
func under(prefix []byte) *pb.RangeRequest {
	return &pb.RangeRequest{Key: prefix, RangeEnd: after(prefix)}
}

// put is an operation that writes.
func put(key, value []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: value}}}
}

// remove is an operation that deletes.
func remove(key []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}}
}

// removeUnder is an operation that deletes all keys that begin with a prefix.
func removeUnder(prefix []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: prefix, RangeEnd: after(prefix)}}}
}

// reading is an operation that reads.
func reading(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

// unchanged compares a key's revision: 0 if it is not there.
func unchanged(key []byte, revision int64) *pb.Compare {
	return &pb.Compare{Result: pb.Compare_EQUAL, Target: pb.Compare_MOD, Key: key,
		TargetUnion: &pb.Compare_ModRevision{ModRevision: revision}}
}

// has compares a key's value.
func has(key, value []byte) *pb.Compare {
	return &pb.Compare{Result: pb.Compare_EQUAL, Target: pb.Compare_VALUE, Key: key,
		TargetUnion: &pb.Compare_Value{Value: value}}
}
