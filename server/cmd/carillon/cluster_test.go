package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

func TestADrainIsFollowedForAsLongAsIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 1200 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		began := time.Now()
		err := emptied(ctx, newStubCluster(), "stuck")
		const want = "deadline_exceeded: node stuck goes on handing over, it still owns 1; look with carillon cluster status"
		if err == nil || err.Error() != want || carillon.KindOf(err) != carillon.DeadlineExceeded ||
			exitCode(err) != exitFailed {
			t.Errorf("%v, exit code %d", err, exitCode(err))
		}
		if took := time.Since(began); took != wait {
			t.Errorf("after %v", took)
		}
		if err := emptied(t.Context(), newStubCluster(), "nobody"); err != nil {
			t.Errorf("who owns nothing: %v", err)
		}
	})
}
