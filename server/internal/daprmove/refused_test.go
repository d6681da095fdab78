package daprmove_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	cronpb "github.com/carillonhq/carillon/api/dapr/proto/cron/v1"
	"github.com/carillonhq/carillon/server/internal/daprmove"
)

// strict is a node that refuses jobs.
type strict struct {
	carillon.Scheduler
	refuses func(name string) error
}

func (s strict) PutJob(ctx context.Context, j carillon.Job, o ...carillon.PutOption) (carillon.PutResult, error) {
	if name, ok := strings.CutPrefix(j.Name, "dapr/app/app/"); ok {
		if err := s.refuses(name); err != nil {
			return carillon.PutResult{}, err
		}
	}
	return s.Scheduler.PutJob(ctx, j, o...)
}

// no is the error about a job that is refused.
func no(name string) error { return carillon.Errorf(carillon.InvalidArgument, "name", "not %s", name) }

// among refuses some names.
func among(names ...string) func(string) error {
	return func(name string) error {
		switch {
		case !slices.Contains(names, name):
			return nil
		case strings.HasSuffix(name, "1"):
			return carillon.Errorf(carillon.ResourceExhausted, "namespace", "it is full")
		}
		return no(name)
	}
}

// TestWhatWasRefusedIsTriedAgain, and nothing else: the others have run and gone.
func TestWhatWasRefusedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		begun := time.Now()
		had := connect(t, n)
		state, fires := grown(begun, 0)
		for _, c := range []struct {
			refused                []string
			here, retried, lacking int
			before                 bool
		}{
			{[]string{"is1", "is2", "left"}, 11, 0, 3, false},
			{[]string{"is1", "left"}, 12, 3, 2, true},
			{[]string{"is1", "left", "is4"}, 12, 2, 2, true},
			{nil, 14, 2, 0, true},
			{[]string{"is1"}, 14, 0, 0, true},
		} {
			report, err := daprmove.Import(t.Context(), strict{n.Scheduler(), among(c.refused...)}, state, silent)
			check(t, err)
			if report.Here.Jobs != c.here || report.Retried != c.retried || report.Left != c.lacking ||
				report.Before != c.before || report.Whole() != (c.lacking == 0) || len(report.Faults) != c.lacking {
				t.Errorf("with %v refused the report is %+v", c.refused, report)
			}
			for _, f := range report.Faults {
				if _, name, _ := strings.Cut(f.Key, "dapr/jobs/app||default||app||"); !slices.Contains(c.refused, name) {
					t.Errorf("%s is named", f.Key)
				}
			}
			time.Sleep(5 * time.Minute)
		}
		synctest.Wait()
		had.want(t, begun, fires)
	})
}

// TestImportsOfWhatWasRefusedMayEndAnywhere: whatever is refused when, and wherever imports end, also those of other
// states, each run comes once.
func TestImportsOfWhatWasRefusedMayEndAnywhere(t *testing.T) {
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) {
			chance := &chance{Rand: rand.New(rand.NewPCG(seed, 1))}
			n := node(t)
			begun := time.Now()
			had := connect(t, n)
			state, fires := grown(begun, 0)
			other, _ := grown(begun, 1)
			check(t, func() error { // from here on the state is the one that comes in
				_, err := daprmove.Import(t.Context(), strict{n.Scheduler(), no}, state, silent)
				return err
			}())
			for range 12 {
				ctx, die := context.WithCancel(t.Context())
				from := state
				if chance.upTo(4) == 0 {
					from = other
				}
				_, err := daprmove.Import(ctx, strict{newMortal(n, die, chance, 25), func(name string) error {
					if chance.upTo(3) > 0 {
						return no(name)
					}
					return nil
				}}, from, silent)
				die()
				if err != nil && !errors.Is(err, context.Canceled) && (from == state || !errors.Is(err, daprmove.ErrOtherState)) {
					t.Fatalf("seed %d: %v", seed, err)
				}
				time.Sleep(time.Duration(chance.upTo(60)) * time.Second)
			}
			report, err := daprmove.Import(t.Context(), n.Scheduler(), state, silent)
			check(t, err)
			if !report.Whole() {
				t.Errorf("seed %d: the report is %+v", seed, report)
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			had.want(t, begun, fires)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
}

// TestTooManyAreRefused for the mark to keep: those beyond are counted, and not tried again.
func TestTooManyAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		state := &daprmove.State{ID: "many", Origin: "here", Cluster: "1"}
		for i := range 1100 {
			state.Records = append(state.Records, record(fmt.Sprintf("job%04d", i), &cronpb.JobSpec{DueTime: new("1s")},
				time.Now().Add(time.Hour), true))
		}
		for _, c := range []struct {
			refuses       func(string) error
			lacking, here int
			retried       int
		}{{no, 1100, 0, 0}, {no, 1100, 0, 1000}, {among(), 100, 1000, 1000}, {among(), 100, 1000, 0}} {
			report, err := daprmove.Import(t.Context(), strict{n.Scheduler(), c.refuses}, state, silent)
			check(t, err)
			if report.Left != c.lacking || report.Unkept != 100 || report.Here.Jobs != c.here || report.Retried != c.retried ||
				report.Whole() {
				t.Errorf("%d are left out, %d unkept, %d here, %d tried again", report.Left, report.Unkept, report.Here.Jobs,
					report.Retried)
			}
		}
	})
}
