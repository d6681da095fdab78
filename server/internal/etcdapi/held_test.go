package etcdapi

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// large schedules jobs with so many bytes of data each.
func (r *rig) large(n, bytes int) {
	r.t.Helper()
	data := mustAny(r.t, wrapperspb.String(strings.Repeat("x", bytes)))
	for i := range n {
		job := far()
		job.Data = data
		r.schedule(appOf("ns", "app"), "large"+string(rune('a'+i)), job)
	}
}

// wantError holds an error to one of etcd's.
func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, rpctypes.Error(want)) && status.Convert(err).Message() != status.Convert(want).Message() {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// TestWhatIsTooLargeIsRefusedInEtcdsWords: requests by their bytes and operations, and what is read before puts.
func TestWhatIsTooLargeIsRefusedInEtcdsWords(t *testing.T) {
	r := start(t, Options{RequestBytes: 100_000, AnswerBytes: 50_000, Operations: 8})
	r.large(3, 20_000)
	key := "dapr/jobs/app||ns||app||largea"
	all := r.get(key).Kvs[0]
	_, err := r.etcd.Put(t.Context(), key, strings.Repeat("x", 120_000))
	wantError(t, "a large request", err, rpctypes.ErrGRPCRequestTooLarge)
	_, err = r.etcd.Put(t.Context(), key, strings.Repeat("x", 1<<20))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a request that gRPC refuses: %v", err)
	}
	ops := make([]clientv3.Op, 9)
	for i := range ops {
		ops[i] = clientv3.OpDelete(key)
	}
	_, err = r.etcd.Txn(t.Context()).Then(ops...).Commit()
	wantError(t, "many operations", err, rpctypes.ErrGRPCTooManyOps)

	var puts []clientv3.Op
	for _, name := range []string{"largea", "largeb", "largec"} {
		puts = append(puts, clientv3.OpPut("dapr/jobs/app||ns||app||"+name, string(all.GetValue()), clientv3.WithPrevKV()))
	}
	before := r.get(key).Kvs[0].GetModRevision()
	if _, err = r.etcd.Txn(t.Context()).Then(puts...).Commit(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("60,000 bytes that are there before the puts: %v", err)
	}
	if r.get(key).Kvs[0].GetModRevision() != before {
		t.Error("it was refused and put")
	}
	if _, err = r.etcd.Txn(t.Context()).Then(puts[:2]...).Commit(); err != nil {
		t.Errorf("40,000 bytes: %v", err)
	}
}

// TestWhoDoesNotReadHoldsNoMoreThanTheirShare: of callers that do not read their answers only some get theirs put
// together, and when they are gone others get on.
func TestWhoDoesNotReadHoldsNoMoreThanTheirShare(t *testing.T) {
	r := start(t, Options{SendingBytes: 1 << 20, Patience: 100 * time.Millisecond})
	r.large(6, 100_000)
	// a client that does not read: HTTP/2 without more than the first window
	conn, err := grpc.NewClient(r.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	desc := &grpc.StreamDesc{ServerStreams: true}
	for range 10 {
		stream, err := conn.NewStream(ctx, desc, pb.KV_Range_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		m := &pb.RangeRequest{Key: []byte("dapr/jobs/"), RangeEnd: []byte("dapr/jobs0")}
		if err := errors.Join(stream.SendMsg(m), stream.CloseSend()); err != nil {
			t.Fatal(err)
		}
	}
	for status.Code(err) != codes.ResourceExhausted {
		_, err = r.etcd.Get(t.Context(), "dapr/jobs/", clientv3.WithPrefix())
	}
	if _, err := r.etcd.Get(t.Context(), "dapr/jobs/none"); err != nil {
		t.Errorf("a small answer: %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	for err != nil { // what a lost connection was to be sent is collected
		runtime.GC()
		_, err = r.etcd.Get(t.Context(), "dapr/jobs/", clientv3.WithPrefix())
	}
}

// TestManyAtOnceGetTheirTurns: however many call at once, and with however large requests, all are answered.
func TestManyAtOnceGetTheirTurns(t *testing.T) {
	r := start(t, Options{HeldBytes: 1, RequestBytes: 1 << 20, SendingBytes: 200_000, Answers: 1})
	r.large(3, 80_000)
	value := string(r.get("dapr/jobs/app||ns||app||largea").Kvs[0].GetValue())
	g, ctx := errgroup.WithContext(t.Context())
	for range 30 {
		g.Go(func() error {
			_, err := r.etcd.Get(ctx, "dapr/jobs/", clientv3.WithPrefix())
			return err
		})
		g.Go(func() error {
			_, err := r.etcd.Put(ctx, "dapr/jobs/app||ns||app||largeb", value, clientv3.WithPrevKV())
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// TestWhoSendsNothingLosesItsTurn: a call whose request does not come keeps nobody waiting for ever.
func TestWhoSendsNothingLosesItsTurn(t *testing.T) {
	r := start(t, Options{HeldBytes: 1, Patience: 100 * time.Millisecond})
	conn, err := grpc.NewClient(r.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, pb.KV_Put_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.etcd.Get(t.Context(), "dapr/jobs/none"); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	if err := stream.RecvMsg(new(pb.PutResponse)); status.Code(err) != codes.DeadlineExceeded || errors.Is(err, io.EOF) {
		t.Errorf("who sends nothing: %v", err)
	}
}

// TestWhoGivesUpHasHeldNothing: calls that end before it is their turn leave the rest as it is.
func TestWhoGivesUpHasHeldNothing(t *testing.T) {
	r := start(t, Options{HeldBytes: 1, Patience: time.Minute})
	conn, err := grpc.NewClient(r.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, pb.KV_Put_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil { // until the other one has its turn, and nobody else
		brief, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = r.etcd.Get(brief, "dapr/jobs/none")
		end()
	}
	cancel()
	if err := stream.RecvMsg(new(pb.PutResponse)); status.Code(err) != codes.Canceled {
		t.Errorf("who sends nothing: %v", err)
	}
	r.wantKeys("dapr/jobs/")
}

// TestAPanicEndsNoNode: what is wrong with one call is the call's alone.
func TestAPanicEndsNoNode(t *testing.T) {
	var fails atomic.Bool
	r := start(t, Options{Now: func() time.Time {
		if fails.Load() {
			panic("a clock that fails")
		}
		return time.Now()
	}})
	fails.Store(true)
	if _, err := r.etcd.Get(t.Context(), "dapr/jobs/none"); err == nil {
		t.Error("it is answered")
	}
	fails.Store(false)
	r.wantKeys("dapr/jobs/")
}
