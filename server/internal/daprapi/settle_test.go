package daprapi

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/dispatch/sidecar"
)

// held is a session of an app with what it has received.
type held struct {
	*sidecar.Session
	got chan sidecar.Delivery
}

// open opens a session whose runs the test answers.
func open(t *testing.T, r *rig) held {
	t.Helper()
	session, err := sidecar.Open(r.node.Hub(), r.node, sidecar.Hello{Namespace: "default", AppID: "app", Jobs: true},
		sidecar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := held{session, make(chan sidecar.Delivery, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			ds, err := session.Receive(t.Context())
			if err != nil {
				return
			}
			for _, d := range ds {
				h.got <- d
			}
		}
	}()
	t.Cleanup(func() { _ = session.Close(); <-done })
	return h
}

// now is a job that is due at once.
func (r *rig) now(name string) {
	r.put(name, appOf("app"), soon())
	synctest.Wait()
}

// settling begins to let the streams from an address settle; the answer is how long it took.
func (s *streams) settling(from string) chan time.Duration {
	start, settled := time.Now(), make(chan time.Duration, 1)
	go func() { s.settle(context.Background(), from, false); settled <- time.Since(start) }()
	synctest.Wait()
	return settled
}

// Before a sidecar is told anything nothing more is sent to it, until it has answered what it has. What is due
// meanwhile goes to the stream that takes the place of the one that was held.
func TestStreamsSettleBeforeASidecarIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s, old := newStreams(), open(t, r)
		remove := s.add(old.Session, "here")
		r.now("first")
		first := <-old.got
		settled := s.settling("here")
		r.now("second")
		<-time.After(150 * time.Millisecond)
		if len(old.got)+len(settled) > 0 {
			t.Fatal("a run went to a stream that is held, or the stream has settled with a run in hand")
		}
		if err := old.Result(first.ID, true, ""); err != nil {
			t.Fatal(err)
		}
		if took := <-settled; took != 150*time.Millisecond {
			t.Errorf("settled after %v", took)
		}
		s.settle(t.Context(), "here", true)
		next := open(t, r)
		defer s.add(next.Session, "here")()
		_ = old.Close()
		remove()
		if d := <-next.got; d.Run.Attempt != 1 {
			t.Errorf("attempt %d came", d.Run.Attempt)
		}
	})
}

// A sidecar that answers nothing holds nobody up for long, and one that keeps its stream gets runs again.
func TestHoldEnds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s, one := newStreams(), open(t, r)
		defer s.add(one.Session, "here")()
		r.now("first")
		<-one.got
		start := time.Now()
		if took := <-s.settling("here"); took != settleFor {
			t.Errorf("settled after %v", took)
		}
		s.settle(t.Context(), "here", true)
		r.now("second")
		<-one.got
		if took := time.Since(start); took != settleFor+settleClose {
			t.Errorf("the stream was held for %v", took)
		}
	})
}

// If the node that tells a sidecar dies before it says that it has, the streams do not wait for ever.
func TestHoldEndsWithoutAWord(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s, one := newStreams(), open(t, r)
		defer s.add(one.Session, "here")()
		start := time.Now()
		<-s.settling("here")
		r.now("first")
		<-one.got
		if took := time.Since(start); took != settleFor+settleClose {
			t.Errorf("the stream was held for %v", took)
		}
		s.settle(t.Context(), "here", true) // late
		r.now("second")
		<-one.got
	})
}

// A stream that its sidecar opens before it is told gets nothing; one that it opens afterwards, and those of
// other sidecars, get runs at once.
func TestAStreamThatIsOpenedMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := newStreams()
		<-s.settling("here")
		one := open(t, r)
		remove := s.add(one.Session, "here")
		r.now("first")
		<-time.After(100 * time.Millisecond)
		if len(one.got) > 0 {
			t.Fatal("a run went to a stream that its sidecar is about to close")
		}
		other := open(t, r)
		defer s.add(other.Session, "there")()
		<-other.got
		_ = other.Close()
		s.settle(t.Context(), "here", true)
		later := open(t, r)
		defer s.add(later.Session, "here")()
		r.now("second")
		<-later.got
		if len(one.got) > 0 {
			t.Error("a run went to the stream that was opened before")
		}
		_ = one.Close()
		remove()
	})
}

// Two sidecars behind one address are told at different times: the streams of both stay held until the second
// is told.
func TestTwoSidecarsAtOneAddress(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s, one := newStreams(), open(t, r)
		defer s.add(one.Session, "here")()
		<-s.settling("here")
		<-s.settling("here")
		s.settle(t.Context(), "here", true)
		<-time.After(settleClose + 100*time.Millisecond)
		r.now("first")
		if len(one.got) > 0 {
			t.Fatal("a run came before the second sidecar was told")
		}
		s.settle(t.Context(), "here", true)
		start := time.Now()
		<-one.got
		if took := time.Since(start); took > settleClose {
			t.Errorf("held for %v", took)
		}
	})
}

// WatchHosts tells nothing before the sidecar has answered what it has.
func TestWatchHostsWaitsForWhatASidecarHas(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.watchApp("app")
		r.now("first")
		id := s.expect("first")
		hosts, err := r.client.WatchHosts(t.Context(), &pb.WatchHostsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan error, 1)
		go func() { _, err := hosts.Recv(); told <- err }()
		synctest.Wait()
		if len(told) > 0 {
			t.Fatal("it was told while it had a run")
		}
		s.succeed(id)
		synctest.Wait()
		if len(told) == 0 {
			t.Fatal("it was not told though it has answered")
		}
		if err := <-told; err != nil {
			t.Error(err)
		}
	})
}

// While a node ends, those who watch the hosts there are let go, and nobody begins to.
func TestNobodyWatchesANodeThatEnds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first, err := r.client.WatchHosts(t.Context(), &pb.WatchHostsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := first.Recv(); err != nil {
			t.Fatal(err)
		}
		r.leave()
		second, err := r.client.WatchHosts(t.Context(), &pb.WatchHostsRequest{})
		if err == nil {
			_, err = second.Recv()
		}
		if status.Code(err) != codes.Unavailable {
			t.Errorf("a second begins: %v", err)
		}
		if _, err := first.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("the first goes on: %v", err)
		}
	})
}

// Sidecars behind one address that ask again and again do not keep the streams of all held: a hold goes on for
// settleMost and one more, and then there is none for settleRest.
func TestHoldsDoNotFollowEachOtherForEver(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s, one := newStreams(), open(t, r)
		defer s.add(one.Session, "here")()
		ctx, stop := context.WithCancel(t.Context())
		asking := make(chan struct{})
		go func() {
			defer close(asking)
			for ctx.Err() == nil {
				s.settle(ctx, "here", false) // it is never told
				<-time.After(time.Second / 2)
			}
		}()
		defer func() { stop(); <-asking }()
		var held, longest, all time.Duration
		for start := time.Now(); all < time.Minute; all = time.Since(start) {
			before := time.Now()
			r.now("job")
			d := <-one.got
			if err := one.Result(d.ID, true, ""); err != nil {
				t.Fatal(err)
			}
			waited := time.Since(before)
			held, longest = held+waited, max(longest, waited)
			<-time.After(10 * time.Millisecond)
		}
		if longest < settleMost || longest > settleMost+settleFor+settleClose || held > all*2/5 {
			t.Errorf("runs waited for %v of %v, %v at most", held, all, longest)
		}
	})
}
