package cluster

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestHeartbeatsSinceWhenTheStoreAnswers: a failed heartbeat, a lost one, an outage of this node and one of
// the whole store each move the time on.
func TestHeartbeatsSinceWhenTheStoreAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeartbeats(monotonic{time.Now()}, 4*time.Second)
		want := func(what string, want, ago time.Duration, ever bool) {
			t.Helper()
			if got := h.answering(ago, ever); got != want {
				t.Errorf("%s: since %v, want %v", what, got, want)
			}
		}
		want("before the first", notAnswering, 0, false)
		<-time.After(time.Second)
		h.taken(h.clock.elapsed())
		want("after the first", time.Second, 0, false)
		<-time.After(time.Second)
		h.taken(h.clock.elapsed())
		want("after the second", time.Second, 0, false)
		want("its terms ended half a second ago", 1500*time.Millisecond, 500*time.Millisecond, true)
		h.failed()
		want("after a failed one", notAnswering, 0, false)
		h.taken(h.clock.elapsed())
		want("after the next", 2*time.Second, 0, false)
		h.outages.last.Store(int64(1900 * time.Millisecond))
		want("an outage before that", 2*time.Second, 0, false)
		h.outages.last.Store(int64(2100 * time.Millisecond))
		want("an outage after that", 2100*time.Millisecond, 0, false)
		<-time.After(2*time.Second + time.Millisecond)
		want("without one for half a TTL", notAnswering, 0, false)
	})
}

// TestHeartbeatsLife: a claim needs a heartbeat after the time that it names, and a node that lives.
func TestHeartbeatsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeartbeats(monotonic{time.Now()}, 4*time.Second)
		<-time.After(time.Second)
		before := time.Now()
		h.taken(h.clock.elapsed())
		if !h.after(before) || h.after(before.Add(1)) {
			t.Errorf("after: %v, %v", h.after(before), h.after(before.Add(1)))
		}
		<-time.After(lifeOf(h.ttl) - 1)
		alive := h.after(before)
		<-time.After(1)
		if !alive || h.after(before) || h.silent() != lifeOf(h.ttl) {
			t.Errorf("alive %v, then %v, silent for %v", alive, h.after(before), h.silent())
		}
	})
}
