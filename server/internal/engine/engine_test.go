package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store/memory"
)

func TestAFailedStartLeavesNothingClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := memory.New(memory.Options{Partitions: 2})
		if _, err := s.Leaser().Claim(ctx, "other", []int{1}, time.Hour); err != nil {
			t.Fatal(err)
		}
		e := engine.New(engine.Config{Store: s})
		if err := e.Start(ctx, dispatch.New(e, dispatch.Options{})); err == nil {
			t.Fatal("started without partition 1")
		}
		if err := e.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		if terms, err := s.Leaser().Claim(ctx, "third", []int{0}, time.Hour); err != nil || terms[0].IsZero() {
			t.Fatalf("partition 0 is still claimed: %v %v", terms, err)
		}
	})
}
