package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/server/store"
)

// trailTo is a trail that stores its entries by write.
func trailTo(write func(context.Context, *store.AuditEntry) error) (t *trail, log *bytes.Buffer) {
	log = &bytes.Buffer{}
	n := &Node{config: Config{Name: "n", Now: time.Now, Log: slog.New(slog.NewTextHandler(log, nil))}}
	return newTrail(n, true, write), log
}

var (
	errRefused = carillon.Errorf(carillon.Unauthenticated, "", "no")
	errMissing = carillon.Errorf(carillon.NotFound, "", "none")
)

// TestATrailClosesInTime: while the store is away, all that is left takes no longer than closeWithin, and is in
// the log.
func TestATrailClosesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trail, log := trailTo(func(ctx context.Context, _ *store.AuditEntry) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		const some = failuresAtOnce + 5
		for range some {
			trail.Refused(t.Context(), "", nil, errRefused)
		}
		began := time.Now()
		trail.close(t.Context())
		if took := time.Since(began); took > closeWithin {
			t.Errorf("it took %v", took)
		}
		if n := strings.Count(log.String(), "audit.outcome=unauthenticated"); n != failuresAtOnce {
			t.Errorf("%d of %d are in the log", n, failuresAtOnce)
		}
		if !strings.Contains(log.String(), "audit.left_out=5") {
			t.Error("the log does not say how many were left out")
		}
	})
}

// TestWhatIsLeftOutIsNotForgotten: the store refuses the entry that says how many were left out; the next one
// says so.
func TestWhatIsLeftOutIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Bool
		var stored atomic.Uint64
		trail, _ := trailTo(func(_ context.Context, e *store.AuditEntry) error {
			if !back.Load() {
				return errors.New("away")
			}
			stored.Add(e.LeftOut)
			return nil
		})
		for range failuresAtOnce + 7 {
			trail.Refused(t.Context(), "", nil, errRefused)
		}
		synctest.Wait()
		time.Sleep(countEvery + time.Second) //nolint:forbidigo // in a bubble
		synctest.Wait()
		back.Store(true)
		time.Sleep(countEvery) //nolint:forbidigo // in a bubble
		synctest.Wait()
		if got := stored.Load(); got != 7 {
			t.Errorf("%d were left out, and 7 were", got)
		}
		trail.close(t.Context())
	})
}

// TestStrangersDoNotHideWhoWasLetIn: while strangers are refused, more often than is recorded, the outcome of
// what has begun is recorded before its answer, and so is a failure of somebody who was let in.
func TestStrangersDoNotHideWhoWasLetIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outcomes []string
		trail, _ := trailTo(func(_ context.Context, e *store.AuditEntry) error {
			if e.Action == "DeleteJobs" || e.Action == "DeleteJob" {
				outcomes = append(outcomes, e.Action+" "+e.Outcome)
			}
			return nil
		})
		flood := func() {
			for range 3 * failuresAtOnce {
				trail.Refused(t.Context(), "", nil, errRefused)
			}
		}
		flood()
		_, end, err := trail.Begin(t.Context(), pb.SchedulerService_DeleteJobs_FullMethodName, &pb.DeleteJobsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		flood()
		if err := end(nil, errMissing); !errors.Is(err, carillon.NotFound) {
			t.Error(err)
		}
		if got := strings.Join(outcomes, ", "); got != "DeleteJobs begun, DeleteJobs not_found" {
			t.Errorf("when it was answered: %s", got)
		}
		_, end, err = trail.Begin(t.Context(), pb.SchedulerService_DeleteJob_FullMethodName, &pb.DeleteJobRequest{})
		if err != nil {
			t.Fatal(err)
		}
		_ = end(nil, errMissing)
		trail.close(t.Context())
		if got := strings.Join(outcomes, ", "); !strings.HasSuffix(got, "DeleteJob not_found") {
			t.Errorf("in the end: %s", got)
		}
	})
}
