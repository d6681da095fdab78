package engine

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

func TestPositionsComeBack(t *testing.T) {
	ps := &partitions{parts: make([]*partitionRunner, 3), macKey: []byte("key")}
	want := position{0, math.MaxUint64, 300}
	token := ps.tokenOf(want)
	if got, err := ps.positionOf(token); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	other := &partitions{parts: make([]*partitionRunner, 4), macKey: ps.macKey}
	for name, bad := range map[string]string{"cut": token[:len(token)-1], "of another list": namespacePages(ps.macKey).At([]byte{1, 2, 3}),
		"no token": "-", "changed": "A" + token} {
		if got, err := ps.positionOf(bad); !errors.Is(err, carillon.InvalidArgument) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, bad := range map[string]position{"shorter": {1, 2}, "longer": {1, 2, 3, 4}} {
		if got, err := ps.positionOf(other.tokenOf(bad)); !errors.Is(err, carillon.FailedPrecondition) {
			t.Errorf("of before the store moved, %s: %v, %v", name, got, err)
		}
	}
}

// TestRecordsAreMergedByTime and those of a partition keep their order, even if its clock was set back.
func TestRecordsAreMergedByTime(t *testing.T) {
	pages := [][]recorded{
		{{partition: 0, number: 1, time: 10}, {partition: 0, number: 2, time: 5}, {partition: 0, number: 3, time: 30}},
		nil,
		{{partition: 2, number: 7, time: 8}, {partition: 2, number: 8, time: 20}},
	}
	var got []uint64
	for _, r := range merged(pages) {
		got = append(got, r.number)
	}
	if want := []uint64{7, 1, 2, 8, 3}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestEveryFieldOfAnEventIsShown but for the id of times that were skipped, which are no run.
func TestEveryFieldOfAnEventIsShown(t *testing.T) {
	id := store.RunID{Partition: 1, Scheduled: int64(time.Hour)}
	e := store.Event{Type: "t", Time: 1, Key: carillon.Key{Namespace: "n", Name: "j"}, Generation: 2, Run: id,
		Attempt: 3, Reason: "r", Error: "e", RetryAt: 4, From: 5, Late: 6}
	want := carillon.Event{Type: "t", Time: instant(1), Namespace: "n", Job: "j", Generation: 2, Run: id.String(),
		Scheduled: instant(int64(time.Hour)), Attempt: 3, Reason: "r", Error: "e", RetryAt: instant(4), From: instant(5),
		Late: 6}
	if got := eventOf(&e); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	e.Skipped, want.Skipped, want.Run = 9, 9, ""
	if got := eventOf(&e); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
