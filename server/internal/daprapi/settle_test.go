package daprapi

import (
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

// Before sidecars are told of a change nothing more is sent to them, so that they can answer what they have.
// What is due meanwhile goes to the stream that takes the place of the one that was held.
func TestStreamsSettleBeforeAChange(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s, old := newStreams(), open(t, r)
		remove := s.add(old.Session)
		r.now("first")
		first := <-old.got
		start, settled := time.Now(), make(chan time.Duration)
		go func() { s.settle(); settled <- time.Since(start) }()
		synctest.Wait()
		r.now("second")
		<-time.After(150 * time.Millisecond)
		if len(old.got) > 0 {
			t.Fatal("a run went to a stream that is held")
		}
		if err := old.Result(first.ID, true, ""); err != nil {
			t.Fatal(err)
		}
		if took := <-settled; took != settleFor {
			t.Errorf("settled after %v", took)
		}
		_ = old.Close()
		remove()
		next := open(t, r)
		if d := <-next.got; d.Run.Attempt != 1 || time.Since(start) > settleFor+50*time.Millisecond {
			t.Errorf("attempt %d came after %v", d.Run.Attempt, time.Since(start))
		}
	})
}

// A sidecar that answers nothing, and one that was not told, hold nobody up for long.
func TestHoldEnds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s, one := newStreams(), open(t, r)
		defer s.add(one.Session)()
		r.now("first")
		<-one.got
		start := time.Now()
		s.settle()
		r.now("second")
		<-one.got
		if took := time.Since(start); took != settleHold {
			t.Errorf("the stream was held for %v", took)
		}
	})
}

// A stream that is opened while others settle gets nothing before its sidecar has had the time to close it.
func TestAStreamThatIsOpenedMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := newStreams()
		defer s.watch()()
		start := time.Now()
		go s.settle()
		<-time.After(200 * time.Millisecond)
		one := open(t, r)
		defer s.add(one.Session)()
		r.now("first")
		<-one.got
		if took := time.Since(start); took != settleFor+settleLinger {
			t.Errorf("the stream was held for %v", took)
		}
		later := open(t, r)
		defer s.add(later.Session)()
		start = time.Now()
		r.now("second")
		select {
		case <-one.got:
		case <-later.got:
		}
		if took := time.Since(start); took > 50*time.Millisecond {
			t.Errorf("a stream that is opened later is held for %v", took)
		}
	})
}

// Without streams nothing is waited for; with WatchHosts alone the other nodes still get their time.
func TestSettleWithoutStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreams()
		took := func() time.Duration {
			start := time.Now()
			s.settle()
			return time.Since(start)
		}
		if d := took(); d != 0 {
			t.Errorf("no stream: %v", d)
		}
		end := s.watch()
		if d := took(); d != settleFor || !s.watched() {
			t.Errorf("WatchHosts alone: %v", d)
		}
		if end(); s.watched() {
			t.Error("a stream that has ended counts")
		}
	})
}

// While a node ends, those who watch the hosts there are let go after the other nodes have settled, and nobody
// begins to.
func TestNobodyWatchesANodeThatEnds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first, err := r.client.WatchHosts(t.Context(), &pb.WatchHostsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := first.Recv(); err != nil {
			t.Fatal(err)
		}
		start, ended := time.Now(), make(chan struct{})
		go func() { r.leave(); close(ended) }()
		synctest.Wait()
		second, err := r.client.WatchHosts(t.Context(), &pb.WatchHostsRequest{})
		if err == nil {
			_, err = second.Recv()
		}
		if status.Code(err) != codes.Unavailable || time.Since(start) != 0 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if _, err := first.Recv(); status.Code(err) != codes.Unavailable || time.Since(start) != settleFor {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		<-ended
	})
}
