package daprapi

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// limitOf limits an actor type, or those of its reminders with a key, if that is not empty.
func limitOf(actorType, key string, most int32) *pb.ConcurrencyLimit {
	l := &pb.ConcurrencyLimit{MaxConcurrent: most,
		Target: &pb.ConcurrencyLimit_Actor{Actor: &pb.ConcurrencyLimitActor{Type: actorType}}}
	if key != "" {
		l.Name = &key
	}
	return l
}

// host is a sidecar that hosts an actor type and keeps what it gets.
type host struct {
	*sidecarOf
	got chan *pb.WatchJobsResponse
	has []*pb.WatchJobsResponse // not answered
}

// host connects a sidecar; an empty type stands for none.
func (r *rig) host(app, actorType string, limits ...*pb.ConcurrencyLimit) *host {
	in := &pb.WatchJobsRequestInitial{AppId: app, Namespace: "default", ConcurrencyLimits: limits}
	if actorType != "" {
		in.ActorTypes = []string{actorType}
	}
	h := &host{sidecarOf: r.watch(in), got: make(chan *pb.WatchJobsResponse, 100)}
	go func() {
		for {
			m, err := h.stream.Recv()
			if err != nil {
				return
			}
			h.got <- m
		}
	}()
	return h
}

// holds checks which runs the sidecar has in the end, ordered by name.
func (h *host) holds(when string, want ...string) {
	h.t.Helper()
	<-time.After(100 * time.Millisecond)
	synctest.Wait()
	for len(h.got) > 0 {
		h.has = append(h.has, <-h.got)
	}
	slices.SortFunc(h.has, func(a, b *pb.WatchJobsResponse) int { return cmp.Compare(a.GetName(), b.GetName()) })
	var names []string
	for _, m := range h.has {
		names = append(names, m.GetName())
	}
	if !slices.Equal(names, want) {
		h.t.Fatalf("%s: it has %v, not %v", when, names, want)
	}
}

// answer answers the first run that it has.
func (h *host) answer(how pb.WatchJobsRequestResultStatus) {
	h.t.Helper()
	h.result(h.has[0].GetId(), how)
	h.has = h.has[1:]
}

// remind puts reminders of a type and key, each of an actor of its own, which are due in their order.
func (r *rig) remind(actorType, key string, names ...string) {
	r.t.Helper()
	for _, name := range names {
		m := actorOf(actorType, name)
		if key != "" {
			m.ConcurrencyKey = &key
		}
		r.put(name, m, soon())
		<-time.After(time.Millisecond)
	}
}

const (
	succeeded = pb.WatchJobsRequestResultStatus_SUCCESS
	failed    = pb.WatchJobsRequestResultStatus_FAILED
)

// TestLimitsOfOneStream are those of Dapr's suite: of a type, of one run at a time, of a key beside others, of
// two keys, and of both.
func TestLimitsOfOneStream(t *testing.T) {
	for name, c := range map[string]struct {
		limits []*pb.ConcurrencyLimit
		put    func(r *rig)
		first  []string // at the sidecar
		next   []string // after it has answered the first
	}{
		"group": {[]*pb.ConcurrencyLimit{limitOf("t", "", 2)},
			func(r *rig) { r.remind("t", "", "a", "b", "c", "d") }, []string{"a", "b"}, []string{"b", "c"}},
		"serial": {[]*pb.ConcurrencyLimit{limitOf("t", "", 1)},
			func(r *rig) { r.remind("t", "", "a", "b", "c") }, []string{"a"}, []string{"b"}},
		"none": {nil,
			func(r *rig) { r.remind("t", "k", "a", "b", "c") }, []string{"a", "b", "c"}, []string{"b", "c"}},
		"of another type": {[]*pb.ConcurrencyLimit{limitOf("u", "", 1), limitOf("u", "k", 1)},
			func(r *rig) { r.remind("t", "k", "a", "b", "c") }, []string{"a", "b", "c"}, []string{"b", "c"}},
		"named": {[]*pb.ConcurrencyLimit{limitOf("t", "slow", 1)},
			func(r *rig) { r.remind("t", "slow", "s", "t"); r.remind("t", "fast", "f", "g") },
			[]string{"f", "g", "s"}, []string{"g", "s"}},
		"independent": {[]*pb.ConcurrencyLimit{limitOf("t", "alpha", 1), limitOf("t", "beta", 1)},
			func(r *rig) { r.remind("t", "alpha", "a", "b"); r.remind("t", "beta", "c", "d") },
			[]string{"a", "c"}, []string{"b", "c"}},
		"type and key": {[]*pb.ConcurrencyLimit{limitOf("t", "", 2), limitOf("t", "k", 1)},
			func(r *rig) { r.remind("t", "k", "a", "b"); r.remind("t", "", "c", "d") },
			[]string{"a", "c"}, []string{"c", "d"}}, // who waits for the type already goes first
	} {
		for _, how := range []pb.WatchJobsRequestResultStatus{succeeded, failed} {
			t.Run(fmt.Sprint(name, " ", how), func(t *testing.T) {
				bubble(t, func(_ *testing.T, r *rig) {
					h := r.host("app", "t", c.limits...)
					c.put(r)
					h.holds("put", c.first...)
					h.answer(how)
					h.holds("answered", c.next...)
					h.cancel()
				})
			})
		}
	}
}

// TestWhatASidecarHeldFreesItsPlaces: when its stream ends, and when its job is deleted, whatever it says
// later.
func TestWhatASidecarHeldFreesItsPlaces(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		one := r.host("app", "t", limitOf("t", "", 1))
		r.remind("t", "", "a", "b")
		one.holds("put", "a")
		one.cancel()
		other := r.host("app", "t", limitOf("t", "", 1))
		other.holds("its stream has ended", "a")
		if _, err := r.client.DeleteJob(t.Context(), &pb.DeleteJobRequest{Name: "a",
			Metadata: actorOf("t", "a")}); err != nil {
			t.Fatal(err)
		}
		other.holds("its job was deleted", "a", "b")
		other.answer(succeeded)
		r.remind("t", "", "c")
		other.holds("a result that changes nothing", "b")
		other.cancel()
	})
}

// TestLimitsOfSeveralStreams: they are those of the namespace, whoever names them, and may host nothing. The
// newest number counts, then the one before it, until nobody names the limit any more.
func TestLimitsOfSeveralStreams(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		namer := r.host("namer", "", limitOf("t", "", 2))
		h := r.host("app", "t")
		unlimited := r.host("other", "u")
		r.remind("t", "", "a", "b", "c", "d", "e", "f")
		r.remind("u", "", "g", "h", "i")
		h.holds("two", "a", "b")
		unlimited.holds("an app beside it", "g", "h", "i")
		newer := r.host("newer", "", limitOf("t", "", 4))
		h.holds("raised", "a", "b", "c", "d")
		newer.cancel()
		h.holds("lowered", "a", "b", "c", "d")
		h.answer(succeeded)
		h.answer(succeeded)
		h.holds("what is in force counts", "c", "d")
		h.answer(succeeded)
		h.holds("down to two", "d", "e")
		namer.cancel()
		h.holds("gone", "d", "e", "f")
		h.cancel()
		unlimited.cancel()
	})
}

// TestTheTalliesOfLimits are shown for metrics within a second.
func TestTheTalliesOfLimits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		h := r.host("app", "t", limitOf("t", "", 3), limitOf("t", "k", 1), limitOf("idle", "", 7))
		r.remind("t", "k", "a", "b", "c")
		r.remind("t", "", "d", "e", "f")
		h.holds("put", "a", "d", "e")
		<-time.After(2 * time.Second)
		want := []partition.Tally{{Limit: delivery.ActorLimit("default", "idle", "")},
			{Limit: delivery.ActorLimit("default", "t", ""), InForce: 3, Waiting: 1, Throttled: 1},
			{Limit: delivery.ActorLimit("default", "t", "k"), InForce: 1, Waiting: 2, Throttled: 2}}
		if got := r.node.LimitTallies(); !slices.Equal(got, want) {
			t.Errorf("%+v", got)
		}
		h.cancel()
		<-time.After(2 * time.Second)
		if got := r.node.LimitTallies(); len(got) > 0 {
			t.Errorf("left: %+v", got)
		}
	})
}
