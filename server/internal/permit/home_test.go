package permit

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/store"
)

var homeKey = delivery.Limit{Namespace: "ns", Key: "k"}

// limitedTo is a limit that all keys have.
func limitedTo(n int) func(delivery.Limit) (int, bool) {
	return func(delivery.Limit) (int, bool) { return n, true }
}

// askerOf is a partition under a term of an epoch.
func askerOf(p int, epoch uint64) message.Asker {
	return message.Asker{Partition: p, Term: store.Term{Epoch: epoch, Nonce: 9}}
}

// TestHomeAllocatesNoMoreThanTheLimit: neither does it give more to whoever asks, nor forget, at a takeover,
// what it has given.
func TestHomeAllocatesNoMoreThanTheLimit(t *testing.T) {
	const limit, partitions = 5, 4
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h, epoch := NewHome(store.Term{Epoch: 1}, limitedTo(limit), nil), uint64(1)
		knows := map[int]message.PermitGrant{}
		durable := map[string][]byte{}
		for step := range 200 {
			if rng.IntN(40) == 0 { // a new owner has what is durable
				epoch++
				h = NewHome(store.Term{Epoch: epoch}, limitedTo(limit), nil)
				var records []store.MetaRecord
				for _, k := range slices.Sorted(maps.Keys(durable)) {
					records = append(records, store.MetaRecord{Kind: store.KindAllocation, Key: k, Value: durable[k]})
				}
				if err := h.Load(records); err != nil {
					t.Fatal(err)
				}
			}
			p := rng.IntN(partitions)
			has := knows[p]
			knows[p] = h.Answer(askerOf(p, 1), []message.PermitRequest{{Limit: homeKey, Stamp: has.Stamp,
				Hold: rng.IntN(has.N + 1), Want: rng.IntN(4), Order: rng.Int64N(10)}})[0]
			for _, r := range h.Write() {
				if r.Value == nil {
					delete(durable, r.Key)
				} else {
					durable[r.Key] = r.Value
				}
			}
			for _, n := range h.Notices() {
				knows[n.Partition] = n.PermitGrant
			}
			sum, known := 0, 0
			for k, v := range durable {
				a, _ := permitrecord.ParseAllocation(&store.MetaRecord{Key: k, Value: v})
				sum += a.N
			}
			for _, g := range knows {
				known += g.N
			}
			if sum > limit || known > sum {
				t.Fatalf("seed %d, step %d: of %d permits %d are allocated, partitions know of %d", seed, step,
					limit, sum, known)
			}
		}
	}
}

// TestHomeTakesNothingBackForAnOldRequest: it was sent before the partition learned of its newest grant,
// which it may be using.
func TestHomeTakesNothingBackForAnOldRequest(t *testing.T) {
	h := NewHome(store.Term{Epoch: 1}, limitedTo(5), nil)
	me := askerOf(1, 1)
	first := h.Answer(me, []message.PermitRequest{{Limit: homeKey, Want: 1}})[0]
	second := h.Answer(me, []message.PermitRequest{{Limit: homeKey, Stamp: first.Stamp, Hold: 1, Want: 2}})[0]
	if first.N != 1 || second.N != 3 || second.Stamp.Compare(first.Stamp) <= 0 {
		t.Fatalf("the grants are %+v and %+v", first, second)
	}
	if late := h.Answer(me, []message.PermitRequest{{Limit: homeKey, Stamp: first.Stamp}})[0]; late.N != 3 {
		t.Errorf("a late request takes back all but %d", late.N)
	}
	if now := h.Answer(me, []message.PermitRequest{{Limit: homeKey, Stamp: second.Stamp, Hold: 5}})[0]; now.N != 3 {
		t.Errorf("after it says that it holds 5 it has %d", now.N)
	}
	if now := h.Answer(me, []message.PermitRequest{{Limit: homeKey, Stamp: second.Stamp, Hold: 2}})[0]; now.N != 2 {
		t.Errorf("after it holds 2 it has %d", now.N)
	}
	h2 := NewHome(store.Term{Epoch: 2}, limitedTo(5), nil)
	if err := h2.Load(h.Write()); err != nil {
		t.Fatal(err)
	}
	if late := h2.Answer(me, []message.PermitRequest{{Limit: homeKey, Stamp: second.Stamp}})[0]; late.N != 2 {
		t.Errorf("a request from before a takeover of the home takes back all but %d", late.N)
	}
}

// TestHomeBelievesTheNewestOwner: what a new owner has found in force replaces the allocation; an old owner
// is not heard any more.
func TestHomeBelievesTheNewestOwner(t *testing.T) {
	h := NewHome(store.Term{Epoch: 1}, limitedTo(5), nil)
	h.Answer(askerOf(1, 1), []message.PermitRequest{{Limit: homeKey, Want: 4}})
	if now := h.Answer(askerOf(1, 2), []message.PermitRequest{{Limit: homeKey, Hold: 1}})[0]; now.N != 1 {
		t.Fatalf("the new owner has %d", now.N)
	}
	h.Answer(askerOf(1, 1), []message.PermitRequest{{Limit: homeKey, Stamp: message.Stamp{Epoch: 1, N: 99},
		Hold: 4, Want: 4}})
	if rest := h.Answer(askerOf(2, 1), []message.PermitRequest{{Limit: homeKey, Want: 5}})[0]; rest.N != 4 {
		t.Errorf("another partition gets %d", rest.N)
	}
}

// TestHomeRecallsWhatALowerLimitForbids, and tells holders of a better run that waits elsewhere.
func TestHomeRecallsWhatALowerLimitForbids(t *testing.T) {
	limit := 2
	h := NewHome(store.Term{Epoch: 1}, func(delivery.Limit) (int, bool) { return limit, true }, nil)
	g := h.Answer(askerOf(1, 1), []message.PermitRequest{{Limit: homeKey, Want: 2}})[0]
	if g.N != 2 || g.NextWaiter != message.NoNextWaiter {
		t.Fatalf("the grant is %+v", g)
	}
	h.Answer(askerOf(2, 1), []message.PermitRequest{{Limit: homeKey, Want: 1, Order: 7}})
	if n := h.Notices(); len(n) != 1 || n[0].Partition != 1 || n[0].NextWaiter != 7 {
		t.Errorf("when another waits: %+v", n)
	}
	limit = 1
	h.Changed("ns")
	if n := h.Notices(); len(n) != 1 || n[0].Partition != 1 || n[0].NextWaiter != message.Recall {
		t.Errorf("when the limit is lowered: %+v", n)
	}
}

func TestHomeRefusesADamagedRecord(t *testing.T) {
	good := permitrecord.Allocation{Limit: homeKey, Partition: 3, N: 2, Term: store.Term{Epoch: 4, Nonce: 5}}.Record()
	for name, r := range map[string]store.MetaRecord{
		"a short value": {Key: good.Key, Value: good.Value[:2]},
		"no value":      {Key: good.Key},
		"another key":   {Key: "ns\x00k", Value: good.Value},
		"no partition":  {Key: "ns\x00k\x00x", Value: good.Value},
	} {
		if NewHome(store.Term{Epoch: 1}, limitedTo(5), nil).Load([]store.MetaRecord{good, r}) == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// TestCheckAllocation: the record of an allocation is one of its home, and no other text is.
func TestCheckAllocation(t *testing.T) {
	l := delivery.Limit{Namespace: "default", Key: "k"}
	allocation := permitrecord.Allocation{Limit: l, Partition: 3, N: 2, Term: store.Term{Epoch: 1}}
	r := allocation.Record()
	allocation.Partition = 8
	if home, err := CheckAllocation(&r, 8); err != nil || home != permitrecord.HomeOf(l, 8) {
		t.Error(home, err)
	}
	for _, wrong := range []store.MetaRecord{{Key: "k", Value: r.Value}, {Key: r.Key, Value: r.Value[:1]},
		allocation.Record()} {
		if home, err := CheckAllocation(&wrong, 8); err == nil {
			t.Errorf("%q is one of %d", wrong.Key, home)
		}
	}
}
