package partition_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// pausedQueues is what the store has.
func (r *rig) pausedQueues() map[delivery.Queue]carillon.QueuePause {
	r.t.Helper()
	all, err := partition.DecodePausedQueues(r.small(store.KindQueue))
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// TestAPauseOfAQueueLasts over a restart, since its first time, with the newest note.
func TestAPauseOfAQueueLasts(t *testing.T) {
	r := newRig(t, partition.Config{})
	since, host := time.Unix(0, r.now).UTC(), delivery.Queue{Namespace: "n", Kind: "http", Address: "example.com:80"}
	pause := func(q delivery.Queue, note, want string) {
		t.Helper()
		r.m.Begin()
		p, err := r.m.PausedQueues.Pause(r.now, q, note)
		if err != nil || p != (carillon.QueuePause{Since: since, Note: want}) {
			t.Fatalf("%+v, %v", p, err)
		}
	}
	pause(queueQ, "", "")
	pause(host, "incident", "incident")
	after := r.m.After()
	pause(host, "", "incident")
	if after == 0 || r.m.After() != after {
		t.Errorf("what is not durable waits for batch %d, then for %d", after, r.m.After())
	}
	r.flush()
	r.advance(time.Hour)
	r.start()
	pause(host, "another", "another")
	r.flush()
	want := map[delivery.Queue]carillon.QueuePause{queueQ: {Since: since}, host: {Since: since, Note: "another"}}
	if got := r.pausedQueues(); !maps.Equal(got, want) {
		t.Errorf("%+v is stored", got)
	}
	for range 2 {
		r.m.PausedQueues.Resume(queueQ)
		r.flush()
		delete(want, queueQ)
		if got := r.pausedQueues(); !maps.Equal(got, want) {
			t.Errorf("%+v is stored", got)
		}
	}
}

func TestSoManyQueuesCanBePaused(t *testing.T) {
	r := newRig(t, partition.Config{})
	for i := range carillon.MaxPausedQueues {
		if _, err := r.m.PausedQueues.Pause(r.now, queueNamed(fmt.Sprint(i)), ""); err != nil {
			t.Fatal(err)
		}
	}
	_, err := r.m.PausedQueues.Pause(r.now, queueQ, "")
	if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.ResourceExhausted || e.Field != "name" {
		t.Errorf("one more: %v", err)
	}
	if _, err := r.m.PausedQueues.Pause(r.now, queueNamed("7"), "again"); err != nil {
		t.Errorf("one that is paused: %v", err)
	}
	r.m.PausedQueues.Resume(queueNamed("7"))
	if _, err := r.m.PausedQueues.Pause(r.now, queueQ, ""); err != nil {
		t.Errorf("in place of another: %v", err)
	}
}

func TestADamagedPauseIsRefused(t *testing.T) {
	_, err := partition.DecodePausedQueues([]store.MetaRecord{{Key: queueQ.String(), Value: []byte{9}}})
	if !errors.Is(err, store.ErrDamaged) {
		t.Error(err)
	}
}
