package etcdapi

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// connect returns a connection that etcd's client knows nothing of.
func (r *rig) connect(o ...grpc.DialOption) *grpc.ClientConn {
	r.t.Helper()
	conn, err := grpc.NewClient(r.address, append(o, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := conn.Close(); err != nil && status.Code(err) != codes.Canceled {
			r.t.Error(err)
		}
	})
	return conn
}

// TestWhatIsRefusedAnywayIsNotRead: the refusal comes before the request does, and nobody asks for health here.
func TestWhatIsRefusedAnywayIsNotRead(t *testing.T) {
	conn := start(t, Options{}).connect()
	for _, method := range []string{pb.KV_RangeStream_FullMethodName, pb.Maintenance_Snapshot_FullMethodName,
		pb.Lease_LeaseKeepAlive_FullMethodName, healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName} {
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(new(pb.RangeResponse)); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// TestATransactionIsCountedBeforeItIsDecoded: what has too many entries, or another transaction, never becomes a
// message, and what does is counted with what it holds.
func TestATransactionIsCountedBeforeItIsDecoded(t *testing.T) {
	nested := &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{}}}
	put := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("k")}}}
	wire := func(m proto.Message) []byte {
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	many := func(field protowire.Number, n int) []byte {
		return bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), nil), n)
	}
	for _, c := range []struct {
		name string
		data []byte
		want error
		held int
	}{
		{name: "nothing"},
		{"as many as there may be", bytes.Join([][]byte{many(1, 4), many(2, 4), many(3, 4)}, nil), nil, 24 + 12*perOperation},
		{"conditions", many(1, 5), rpctypes.ErrGRPCTooManyOps, 0},
		{"operations", many(2, 5), rpctypes.ErrGRPCTooManyOps, 0},
		{"operations of a failure", many(3, 5), rpctypes.ErrGRPCTooManyOps, 0},
		{"a transaction within", wire(&pb.TxnRequest{Success: []*pb.RequestOp{put, nested}}), errNested, 0},
		{"one in a failure", wire(&pb.TxnRequest{Failure: []*pb.RequestOp{nested}}), errNested, 0},
		{"one beside a put", append(many(2, 1), protowire.AppendBytes([]byte{0x12}, append(wire(put), 0x22, 0))...), errNested, 0},
		{"bytes", bytes.Repeat([]byte{0x10}, 101), rpctypes.ErrGRPCRequestTooLarge, 101},
	} {
		m := new(pb.TxnRequest)
		r := &request{Message: m, most: 100, operations: 4}
		half := len(c.data) / 2
		data := mem.BufferSlice{mem.SliceBuffer(c.data[:half]), mem.SliceBuffer(c.data[half:])}
		err := codec{encoding.GetCodecV2(grpcproto.Name)}.Unmarshal(data, r)
		if err != nil || !errors.Is(r.refused, c.want) {
			t.Errorf("%s: %v, refused %v, want %v", c.name, err, r.refused, c.want)
		}
		if c.held > 0 && r.held != c.held {
			t.Errorf("%s: holds %d, want %d", c.name, r.held, c.held)
		}
		if c.want != nil && proto.Size(m) > 0 {
			t.Errorf("%s: it has been decoded", c.name)
		}
	}
	for _, broken := range [][]byte{{0x0a}, {0x12, 5, 1}, {0xff, 0xff}, {0x12, 2, 0x22, 9}} {
		r := &request{Message: new(pb.TxnRequest), most: 100, operations: 4}
		err := codec{encoding.GetCodecV2(grpcproto.Name)}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(broken)}, r)
		if err == nil && r.refused == nil {
			t.Errorf("%x is taken", broken)
		}
	}
}

// TestRefusalsOfBytesReachTheCaller in etcd's words.
func TestRefusalsOfBytesReachTheCaller(t *testing.T) {
	r := start(t, Options{Operations: 4})
	_, err := r.etcd.Txn(t.Context()).If(make([]clientv3.Cmp, 5)...).Commit()
	wantError(t, "many conditions", err, rpctypes.ErrGRPCTooManyOps)
	_, err = r.etcd.Txn(t.Context()).Then(clientv3.OpTxn(nil, nil, nil)).Commit()
	wantError(t, "a transaction within", err, errNested)
	_, err = r.etcd.Get(t.Context(), strings.Repeat("k", smallRequest+1))
	wantError(t, "a large range", err, rpctypes.ErrGRPCRequestTooLarge)
}

// TestWatchesAreBounded: by their bytes, the length of keys, and how many streams there are.
func TestWatchesAreBounded(t *testing.T) {
	r := start(t, Options{Watchers: 2})
	long := strings.Repeat("k", maxWatched+1)
	for what, o := range map[string]clientv3.OpOption{"key": clientv3.WithFilterPut(), "end": clientv3.WithRange(long)} {
		key := map[string]string{"key": long, "end": "a"}[what]
		m := <-r.etcd.Watch(t.Context(), key, o)
		if m.Err() == nil || !strings.Contains(m.Err().Error(), "4096 bytes") {
			t.Errorf("a long %s: %v", what, m)
		}
	}
	if m := <-r.etcd.Watch(t.Context(), long[1:], clientv3.WithCreatedNotify()); !m.Created || m.Canceled {
		t.Errorf("a key as long as it may be: %v", m)
	}
	second, third := pb.NewWatchClient(r.connect()), pb.NewWatchClient(r.connect())
	create := func(c pb.WatchClient, key string) (pb.Watch_WatchClient, error) {
		stream, err := c.Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// If the stream has ended, the answer says why.
		_ = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: &pb.WatchCreateRequest{Key: []byte(key)}}})
		_, err = stream.Recv()
		return stream, err
	}
	if _, err := create(second, strings.Repeat("k", smallRequest)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a large request: %v", err)
	}
	stream, err := create(second, "k")
	if err != nil {
		t.Fatalf("after that: %v", err)
	}
	if _, err := create(third, "k"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one stream more: %v", err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if _, err := create(third, "k"); err != nil {
		t.Errorf("when one has ended: %v", err)
	}
}

// TestOneKeyNeedsNoTurnOfRanges: it is read while all of these are taken.
func TestOneKeyNeedsNoTurnOfRanges(t *testing.T) {
	r := start(t, Options{})
	s := New(r.jobs, r.node.EachJob, r.node.Cluster().WatchNodes, Options{Answers: 1})
	if err := hold(context.WithValue(t.Context(), callKey{}, &call{}), s.answers); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), callKey{}, &call{}))
	if _, err := (kvServer{s: s}).Range(ctx, &pb.RangeRequest{Key: []byte("dapr/jobs/none")}); err != nil {
		t.Errorf("one key: %v", err)
	}
	cancel()
	ctx = context.WithValue(ctx, callKey{}, &call{})
	m := &pb.RangeRequest{Key: []byte("dapr/jobs/"), RangeEnd: []byte("dapr/jobs0")}
	if _, err := (kvServer{s: s}).Range(ctx, m); !errors.Is(err, context.Canceled) {
		t.Errorf("a range: %v", err)
	}
}

// TestOneKeyIsReadWhileRangesWait: who puts a large answer together keeps nobody from a key.
func TestOneKeyIsReadWhileRangesWait(t *testing.T) {
	r := start(t, Options{Answers: 1, SendingBytes: 100_000, Patience: time.Minute})
	r.large(2, 80_000)
	conn := r.connect(grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, pb.KV_Range_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	m := &pb.RangeRequest{Key: []byte("dapr/jobs/"), RangeEnd: []byte("dapr/jobs0")}
	if err := errors.Join(stream.SendMsg(m), stream.CloseSend()); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil { // its answer is on its way, and is not read
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := r.etcd.Get(t.Context(), "dapr/jobs/", clientv3.WithPrefix())
		waits <- err
	}()
	for err == nil { // until the other one has the only turn
		brief, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err = r.etcd.Get(brief, "none", clientv3.WithPrefix())
		end()
	}
	r.get("dapr/jobs/none")
	// It has given its turn back long before its patience ends.
	if err := <-waits; status.Code(err) != codes.ResourceExhausted {
		t.Errorf("who waits: %v", err)
	}
	r.wantKeys("none")
}

// panics is a stream that fails while it is read.
type panics struct{ grpc.ServerStream }

func (panics) RecvMsg(any) error { panic("a stream that fails") }

// TestAPanicWhileARequestIsReadEndsNoNode: neither of a call nor of a watch.
func TestAPanicWhileARequestIsReadEndsNoNode(t *testing.T) {
	var fails atomic.Bool
	r := start(t, Options{}, grpc.ChainStreamInterceptor(
		func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if fails.Load() {
				stream = panics{stream}
			}
			return handler(srv, stream)
		}))
	fails.Store(true)
	if _, err := r.etcd.Get(t.Context(), "dapr/jobs/none"); err == nil {
		t.Error("a call is answered")
	}
	stream, err := pb.NewWatchClient(r.connect()).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Error("a watch is answered")
	}
	fails.Store(false)
	r.wantKeys("dapr/jobs/")
}
