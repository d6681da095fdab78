package members_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/members"
)

// The conformance suite of the stores tests the contract; here is what they add to it.

// TestRevertForgetsWhoCameSince: as after a failover to a standby that follows with a delay.
func TestRevertForgetsWhoCameSince(t *testing.T) {
	now := time.Unix(1, 0)
	r := members.New(func() time.Time { return now })
	join := func(id string) {
		t.Helper()
		if err := r.Join(t.Context(), store.Member{ID: id, Nonce: 1, Capacity: 1}, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	join("a")
	past := r.Past()
	join("b")
	r.Revert(past)
	join("c")
	r.Revert(past) // what joined after a revert is not in what it went back to
	if all, err := r.Members(t.Context()); err != nil || len(all) != 1 || all[0].ID != "a" {
		t.Errorf("members %v, %v", all, err)
	}
	now = now.Add(time.Second)
	if err := r.Retire(t.Context(), store.Member{ID: "c", Nonce: 1},
		time.Second); !errors.Is(err, store.ErrLast) {
		t.Errorf("the last that lives may own something: %v", err)
	}
}
