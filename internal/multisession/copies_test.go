package multisession

import (
	"testing"
	"testing/synctest"

	"github.com/carillonhq/carillon"
)

// TestCopiesPassOnTheFirstAnswer: of two nodes' answers, until the worker sends the result again.
func TestCopiesPassOnTheFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := copies{second: map[string]*node{}}
		if !c.none() {
			t.Error("there are some")
		}
		c.add(&node{}, &carillon.WorkRequest{Results: []carillon.Result{{Token: "a"}},
			Heartbeats: []carillon.Heartbeat{{Token: "b"}}})
		for i, step := range []struct {
			token                string
			repeated, firstOfTwo bool
		}{{"a", false, true}, {"a", true, false}, {"b", false, true}, {"b", true, false}, {"other", false,
			false}, {"other", false, false}} {
			repeated, firstOfTwo := c.answer(step.token)
			if repeated != step.repeated || firstOfTwo != step.firstOfTwo || c.none() {
				t.Errorf("answer %d: %v, %v", i, repeated, firstOfTwo)
			}
		}
		c.resent("a")
		if repeated, _ := c.answer("a"); repeated {
			t.Error("the answer to a result that was sent again is dropped")
		}
	})
}
