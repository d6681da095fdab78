package etcdapi

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// TestKeysAreThoseOfDaprsScheduler: jobs and schedulers are found under the keys that tools look for.
func TestKeysAreThoseOfDaprsScheduler(t *testing.T) {
	r := start(t, Options{ID: "dapr-scheduler-server-0"})
	r.schedule(appOf("default", "shop"), "hello", far())
	r.schedule(appOf("other", "sh|op"), "a||b:c", far())
	r.schedule(actorOf("default", "dapr.internal.default.shop.workflow", "é 1"), "", far())
	r.wantKeys("dapr/jobs/", "dapr/jobs/actorreminder||default||dapr.internal.default.shop.workflow||é 1||",
		"dapr/jobs/app||default||shop||hello", "dapr/jobs/app||other||sh|op||a||b:c")
	r.wantKeys("dapr/jobs/app||default", "dapr/jobs/app||default||shop||hello")
	r.wantKeys("dapr/counters/")
	r.wantKeys("dapr/leadership", "dapr/leadership/dapr-scheduler-server-0")
	r.wantKeys("elsewhere")
	if n := len(r.keys("")); n != 4 {
		t.Errorf("%d keys in all, want 4", n)
	}
	if got := r.get("dapr/jobs/app||other||sh|op||a||b:c"); got.Count != 1 || len(got.Kvs[0].Value) == 0 {
		t.Errorf("one key: %v", got)
	}
	if got := r.get("dapr/jobs/app||other||sh|op||a||b:"); got.Count != 0 {
		t.Errorf("the beginning of a key: %v", got)
	}
}

// TestRangesAnswerAsEtcdDefinesThem holds answers to whatever a request may ask for against what etcd's
// definition makes of all records.
func TestRangesAnswerAsEtcdDefinesThem(t *testing.T) {
	r := start(t, Options{ID: "s-0"})
	names := []string{"a", "a|", "a||b", "ab", "b", "b-1", "ba"}
	for i, name := range names {
		r.schedule(appOf([]string{"ns", "ns-1"}[i%2], names[i*3%len(names)]), name, far())
		r.schedule(actorOf("ns", names[i*5%len(names)], name), names[i*2%len(names)], far())
		if i%3 == 0 {
			r.schedule(appOf([]string{"ns", "ns-1"}[i%2], names[i*3%len(names)]), name, far()) // once more
		}
	}
	all := r.get("\x00", clientv3.WithFromKey()).Kvs
	if len(all) != 2*len(names)+1 {
		t.Fatalf("%d records", len(all))
	}
	random := rand.New(rand.NewPCG(1, 2))
	kv := pb.NewKVClient(r.etcd.ActiveConnection())
	places := []string{"\x00", "dapr/", "dapr/counters/", "dapr/jobs/", "dapr/jobs/app||ns||", "dapr/jobs/app||ns-1", "e"}
	for _, item := range all {
		places = append(places, string(item.Key))
	}
	for range 2000 {
		m := anyRange(random, places, all)
		got, err := kv.Range(t.Context(), m)
		if err != nil {
			t.Fatalf("%v: %v", m, err)
		}
		want := ranged(m, all)
		if got.Header.Revision < all[0].ModRevision {
			t.Fatalf("revision %d of the answer", got.Header.Revision)
		}
		if got.Header = nil; !proto.Equal(got, want) {
			t.Fatalf("%v:\n%v\nwant\n%v", m, got, want)
		}
	}
}

// anyRange asks for anything.
func anyRange(random *rand.Rand, places []string, all []*mvccpb.KeyValue) *pb.RangeRequest {
	m := &pb.RangeRequest{Key: []byte(places[random.IntN(len(places))]), Limit: random.Int64N(9) - 1,
		SortOrder: pb.RangeRequest_SortOrder(random.IntN(3)), Serializable: random.IntN(2) == 0,
		KeysOnly: random.IntN(4) == 0, CountOnly: random.IntN(8) == 0}
	if random.IntN(2) == 0 {
		m.SortTarget = pb.RangeRequest_SortTarget(random.IntN(5))
	}
	switch random.IntN(5) {
	case 0:
		m.RangeEnd = []byte(places[random.IntN(len(places))])
	case 1:
		m.RangeEnd = []byte("\x00")
	case 2, 3:
		m.Key = m.Key[:1+random.IntN(len(m.Key))]
		m.RangeEnd = []byte(clientv3.GetPrefixRangeEnd(string(m.Key)))
	}
	revision := func(of func(*mvccpb.KeyValue) int64) int64 {
		if random.IntN(6) > 0 {
			return 0
		}
		return of(all[random.IntN(len(all))])
	}
	m.MinModRevision, m.MaxModRevision = revision((*mvccpb.KeyValue).GetModRevision), revision((*mvccpb.KeyValue).GetModRevision)
	m.MinCreateRevision, m.MaxCreateRevision = revision((*mvccpb.KeyValue).GetCreateRevision), revision((*mvccpb.KeyValue).GetCreateRevision)
	return m
}

// ranged is what etcd's definition makes of all records, by key.
func ranged(m *pb.RangeRequest, all []*mvccpb.KeyValue) *pb.RangeResponse {
	answer := &pb.RangeResponse{}
	for _, item := range all {
		key, end := string(item.Key), string(m.RangeEnd)
		if end == "" && key != string(m.Key) || end != "" && (key < string(m.Key) || end != "\x00" && key >= end) {
			continue
		}
		answer.Count++
		if m.CountOnly || m.MinModRevision != 0 && item.ModRevision < m.MinModRevision ||
			m.MaxModRevision != 0 && item.ModRevision > m.MaxModRevision ||
			m.MinCreateRevision != 0 && item.CreateRevision < m.MinCreateRevision ||
			m.MaxCreateRevision != 0 && item.CreateRevision > m.MaxCreateRevision {
			continue
		}
		answer.Kvs = append(answer.Kvs, proto.CloneOf(item))
	}
	slices.SortStableFunc(answer.Kvs, func(a, b *mvccpb.KeyValue) int {
		order := []int{bytes.Compare(a.Key, b.Key), cmp.Compare(a.Version, b.Version),
			cmp.Compare(a.CreateRevision, b.CreateRevision), cmp.Compare(a.ModRevision, b.ModRevision),
			bytes.Compare(a.Value, b.Value)}[m.SortTarget]
		if m.SortOrder == pb.RangeRequest_DESCEND {
			order = -order
		}
		return order
	})
	if m.Limit > 0 && int64(len(answer.Kvs)) > m.Limit {
		answer.Kvs, answer.More = answer.Kvs[:m.Limit], true
	}
	for _, item := range answer.Kvs {
		if m.KeysOnly {
			item.Value = nil
		}
	}
	return answer
}

// TestALimitHoldsInMemory: an answer that may have few records is put together of many.
func TestALimitHoldsInMemory(t *testing.T) {
	order := orderOf(&pb.RangeRequest{})
	a := answer{limit: 10, order: order, most: 1500 * (perRecord + 9)}
	for i := range 10_000 {
		if err := a.add(&mvccpb.KeyValue{Key: fmt.Appendf(nil, "%09d", i*7919%10_000)}); err != nil {
			t.Fatal(err)
		}
	}
	a.cut()
	if len(a.items) != 10 || string(a.items[9].Key) != "000000009" || a.kept != 10_000 {
		t.Errorf("%d of %d: %v", len(a.items), a.kept, a.items)
	}
}

func TestRefusedRanges(t *testing.T) {
	r := start(t, Options{AnswerBytes: 4000})
	r.schedule(appOf("ns", "shop"), "a", far())
	now := r.get("dapr/jobs/", clientv3.WithPrefix()).Header.Revision
	for what, test := range map[string]struct {
		want error
		key  string
		o    []clientv3.OpOption
	}{
		"an old revision":      {rpctypes.ErrCompacted, "a", []clientv3.OpOption{clientv3.WithRev(now)}},
		"a revision to come":   {rpctypes.ErrFutureRev, "a", []clientv3.OpOption{clientv3.WithRev(now << 1)}},
		"no key":               {rpctypes.ErrEmptyKey, "", nil},
		"an order unheard of":  {rpctypes.ErrInvalidSortOption, "a", []clientv3.OpOption{clientv3.WithSort(9, 1)}},
		"an order unheard of2": {rpctypes.ErrInvalidSortOption, "a", []clientv3.OpOption{clientv3.WithSort(0, 3)}},
	} {
		if _, err := r.etcd.Get(t.Context(), test.key, test.o...); err == nil || err.Error() != test.want.Error() {
			t.Errorf("%s: %v, want %v", what, err, test.want)
		}
	}
	for i := range 40 {
		r.schedule(appOf("ns", "shop"), fmt.Sprintf("%02d", i), far())
	}
	_, err := r.etcd.Get(t.Context(), "dapr/jobs/", clientv3.WithPrefix())
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "4000 bytes") {
		t.Errorf("an answer that is too large: %v", err)
	}
	if got := r.get("dapr/jobs/", clientv3.WithPrefix(), clientv3.WithLimit(5)); len(got.Kvs) != 5 || got.Count != 41 || !got.More {
		t.Errorf("a page of it: %d of %d", len(got.Kvs), got.Count)
	}
	_, err = r.etcd.Txn(t.Context()).Then(slices.Repeat([]clientv3.Op{clientv3.OpGet("dapr/jobs/", clientv3.WithPrefix(),
		clientv3.WithLimit(10))}, 9)...).Commit()
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a transaction whose answer is too large: %v", err)
	}
}
