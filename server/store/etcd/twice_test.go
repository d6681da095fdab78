package etcd_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
)

// repeater passes calls on to a member of etcd.
type repeater struct {
	*grpc.ClientConn
	// twice is what the next transaction contains that is passed on twice, and its second answer back.
	twice atomic.Pointer[string]
}

// bytesAsTheyAre is a codec of messages that nobody reads.
type bytesAsTheyAre struct{}

func (bytesAsTheyAre) Name() string                  { return "proto" }
func (bytesAsTheyAre) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (bytesAsTheyAre) Unmarshal(message []byte, v any) error {
	*v.(*[]byte) = slices.Clone(message)
	return nil
}

// repeat starts a repeater before a member, and returns its address.
func repeat(t *testing.T, m *realserver.Etcd) (*repeater, string) {
	t.Helper()
	conn, err := grpc.NewClient(m.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(bytesAsTheyAre{})))
	if err != nil {
		t.Fatal(err)
	}
	r := &repeater{ClientConn: conn}
	calls := grpc.NewServer(grpc.ForceServerCodec(bytesAsTheyAre{}), grpc.UnknownServiceHandler(r.pass))
	dates := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: m.Address()})
	s := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(
		func(w http.ResponseWriter, q *http.Request) {
			if q.ProtoMajor == 2 {
				calls.ServeHTTP(w, q)
				return
			}
			dates.ServeHTTP(w, q)
		})}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, l.Addr().String()
}

// pass passes a call on.
func (r *repeater) pass(_ any, stream grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(stream)
	if !ok {
		return status.Error(codes.Internal, "a call without a method")
	}
	var question, answer []byte
	if err := stream.RecvMsg(&question); err != nil {
		return err
	}
	headers, _ := metadata.FromIncomingContext(stream.Context())
	ctx := metadata.NewOutgoingContext(stream.Context(), headers)
	if key := r.twice.Load(); key != nil && strings.HasSuffix(method, "/Txn") && writes(question, *key) &&
		r.twice.CompareAndSwap(key, nil) {
		if err := r.Invoke(ctx, method, &question, &answer); err != nil {
			return err
		}
	}
	if err := r.Invoke(ctx, method, &question, &answer); err != nil {
		return err
	}
	return stream.SendMsg(&answer)
}

// writes reports whether a transaction puts or deletes a key that contains a text.
func writes(transaction []byte, text string) bool {
	var t pb.TxnRequest
	if err := proto.Unmarshal(transaction, &t); err != nil {
		return false
	}
	return slices.ContainsFunc(t.Success, func(o *pb.RequestOp) bool {
		return strings.Contains(string(o.GetRequestPut().GetKey()), text) ||
			strings.Contains(string(o.GetRequestDeleteRange().GetKey()), text)
	})
}

// next has the next transaction repeated that writes a key with a text in it.
func (r *repeater) next(key string) { r.twice.Store(&key) }

// TestTransactionsComeTwice: a batch that was applied is not said to be refused because it came again, and
// claims, renewals and batches in parts are the same as if each had come once.
func TestTransactionsComeTwice(t *testing.T) {
	m := realserver.StartEtcd(t, realserver.VolatileEtcd()...)
	o := fresh(m)
	direct := open(t, o)
	r, address := repeat(t, m)
	o.Addresses = []string{address}
	s := open(t, o)
	l := s.Leaser()
	member := store.Member{ID: "node", Address: "a:1", Capacity: 1, Nonce: 5}
	large := make([]string, 2*s.MostOps())
	for i := range large {
		large[i] = fmt.Sprintf("large-%05d", i)
	}
	var sh store.Shard
	var held store.Holding
	apply := func(outcome store.Outcome, names ...string) func() error {
		return func() error {
			if err := sh.Apply(t.Context(), servertest.Batch(names...)); store.OutcomeOf(err) != outcome {
				return fmt.Errorf("outcome %w, want %d", err, outcome)
			}
			return nil
		}
	}
	for _, step := range []struct {
		what, key string
		do        func() error
	}{
		{"join", "/nodes/", func() error { return l.Join(t.Context(), member, servertest.Lease) }},
		{"join again", "/nodes/", func() error { return l.Join(t.Context(), member, servertest.Lease) }},
		{"claim", "/owners/", func() error { sh, _ = servertest.Own(t, s, 3); return nil }},
		{"a batch", "/jobs/", apply(store.Applied, "a", "b")},
		{"claim again", "/owners/", func() error { sh, held = servertest.Own(t, s, 3); return nil }},
		{"a batch in parts", "/parts/", apply(store.Applied, large...)},
		{"what the parts say", "/parts/", apply(store.Applied, "z")},
		{"renew", "/owners/", func() error {
			lost, err := l.Renew(t.Context(), "node", []store.Holding{held}, servertest.Lease)
			if len(lost) > 0 {
				return errors.New("it is lost")
			}
			return err
		}},
		{"release", "/owners/", func() error { return l.Release(t.Context(), "node", []store.Holding{held}) }},
		{"leave", "/nodes/", func() error { return l.Leave(t.Context(), member.ID, member.Nonce) }},
	} {
		r.next(step.key)
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if r.twice.Load() != nil {
			t.Fatalf("%s: nothing with %q was written", step.what, step.key)
		}
	}
	want := slices.Concat([]string{"a", "b"}, large, []string{"z"})
	servertest.WantNames(t, servertest.Shard(t, s, 3, store.Term{}), want...)
	servertest.WantNames(t, servertest.Shard(t, direct, 3, store.Term{}), want...)
}

// TestADeposedBatchComesTwice: who was deposed is told so.
func TestADeposedBatchComesTwice(t *testing.T) {
	m := realserver.StartEtcd(t, realserver.VolatileEtcd()...)
	o := fresh(m)
	direct := open(t, o)
	r, address := repeat(t, m)
	o.Addresses = []string{address}
	sh, _ := servertest.Own(t, open(t, o), 3)
	servertest.Want(t, "before", sh, servertest.Batch("a"), store.Applied)
	again := servertest.Reown(t, direct, 3)
	r.next("/jobs/")
	servertest.Want(t, "deposed", sh, servertest.Batch("b"), store.Fenced)
	servertest.WantNames(t, again, "a")
}
