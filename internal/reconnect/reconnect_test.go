package reconnect

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestNextDoublesUpToABound(t *testing.T) {
	var b Backoff
	for _, want := range []time.Duration{First, 2 * First, 4 * First, 8 * First} {
		if b = b.Next(); b != Backoff(want) {
			t.Errorf("%v, not %v", time.Duration(b), want)
		}
	}
	for range 20 {
		b = b.Next()
	}
	if b != Backoff(Last) {
		t.Errorf("%v at last", time.Duration(b))
	}
}

func TestLostForgetsAfterALongConnection(t *testing.T) {
	if b := Backoff(time.Second).Lost(Last); b != Backoff(2*time.Second) {
		t.Errorf("%v after a short one", time.Duration(b))
	}
	if b := Backoff(time.Second).Lost(Last + 1); b != Backoff(First) {
		t.Errorf("%v after a long one", time.Duration(b))
	}
}

func TestConnectWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wait := range []time.Duration{0, First, Last} {
			for range 50 {
				began := time.Now()
				took, err := Connect(t.Context(), Backoff(wait), func(ctx context.Context) (time.Duration, error) {
					took := time.Since(began)
					<-ctx.Done()
					return took, ctx.Err()
				})
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(began)-took != timeout {
					t.Errorf("the attempt took %v: %v", time.Since(began)-took, err)
				}
				if took < wait/2 || took > wait+1 {
					t.Errorf("it waited %v of %v", took, wait)
				}
			}
		}
	})
}

func TestConnectEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Connect(ctx, Backoff(time.Hour), func(context.Context) (int, error) { panic("it connects") })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
