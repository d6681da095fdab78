package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestALateFailureIsOld: a request that began before one that has succeeded says nothing of the store now.
func TestALateFailureIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reach{now: time.Now, catchUp: newCatchUp(0, func() int64 { return 1 }, nil)}
		began := time.Now()
		time.Sleep(2 * time.Second)
		r.answered(time.Now())
		r.failed(began, errors.New("late"))
		if _, err := r.StoreAway(); err != nil || r.failingNow() {
			t.Errorf("away by an old failure: %v", err)
		}
		time.Sleep(time.Second)
		failing := time.Now()
		for range 3 {
			r.failed(time.Now(), errors.New("refused"))
			time.Sleep(awayAfter / 2)
		}
		if since, err := r.StoreAway(); err == nil || !since.Equal(failing) {
			t.Errorf("away since %v, want %v: %v", since, failing, err)
		}
		if !r.answered(time.Now()) || r.answered(time.Now()) {
			t.Error("it is back once")
		}
	})
}
