package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store/memory"
)

// hooks sets webhooks of the default namespace that ask for types.
func hooks(t *testing.T, n *node, types ...carillon.EventType) {
	t.Helper()
	ns, err := n.GetNamespace(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if ns.Webhooks = nil; len(types) > 0 {
		ns.Webhooks = []carillon.Webhook{{Name: "w", URL: "https://example.com", Types: types}}
	}
	if _, err := n.PutNamespace(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
}

// followed returns what FollowWanted tells from a position on until nothing more comes, and where it ends.
func followed(t *testing.T, n *node, position string) (events []carillon.Event, end string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err = n.FollowWanted(ctx, position, func(b carillon.EventBatch) error {
		events, end = append(events, b.Events...), b.Position
		return nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return events, end, err
}

// TestWhatWebhooksAskForIsFollowedOverTerms: nothing of the types is missing, although nobody watches, somebody
// watches for a while, the node ends, and a long time passes. A watch of everything notices that.
func TestWhatWebhooksAskForIsFollowedOverTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Partitions: 4})
		n := start(t, s)
		putWorker(t, n, carillon.Job{Name: "before", Schedule: "@every 1000h"})
		hooks(t, n, carillon.EventJobCreated)
		_, position, err := followed(t, n, "")
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		put := func() {
			for range 10 {
				name := fmt.Sprintf("j%02d", len(want))
				want = append(want, name)
				putWorker(t, n, carillon.Job{Name: name, Schedule: "@every 1000h"})
				key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: name}
				if _, err := n.SetPaused(t.Context(), key, carillon.PauseOptions{Paused: true}); err != nil {
					t.Fatal(err)
				}
			}
		}
		put()
		l := look(t, n, carillon.WatchQuery{})
		put()
		if err := l.end(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		time.Sleep(3 * partition.EventsFor)
		put()
		n.stop()
		time.Sleep(3 * partition.EventsFor)
		n = start(t, s)
		put()
		other := look(t, n, carillon.WatchQuery{})
		put()
		l.again(n)
		if err := <-l.done; !errors.Is(err, carillon.FailedPrecondition) {
			t.Errorf("a watch of everything goes on from before: %v", err)
		}
		events, _, err := followed(t, n, position)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range events {
			if e.Type == carillon.EventJobCreated {
				got = append(got, e.Job)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("told of %v, want %v", got, want)
		}
		if err := other.end(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		n.stop()
	})
}

// TestWhatWasDeletedIsNotLeftOutSilently: there were more events than are kept.
func TestWhatWasDeletedIsNotLeftOutSilently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Partitions: 1})
		n := start(t, s)
		hooks(t, n, "job")
		_, position, err := followed(t, n, "")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 * partition.DefaultEventsMost / 1000 {
			jobs := make([]carillon.Job, 1000)
			for k := range jobs {
				jobs[k] = carillon.Job{Name: fmt.Sprint(i, "-", k), Schedule: "@every 1000h",
					Target: carillon.WorkerQueue("q")}
			}
			if _, err := n.PutJobs(t.Context(), jobs); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if _, _, err := followed(t, n, position); !errors.Is(err, carillon.FailedPrecondition) {
			t.Errorf("it goes on: %v", err)
		}
		hooks(t, n)
		time.Sleep(2 * partition.EventsFor)
		if n.Hooked() != nil {
			t.Error("there are webhooks")
		}
		n.stop()
	})
}

func TestThePositionOfWebhooksIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Partitions: 2})
		n := start(t, s)
		for _, want := range []string{"one", "two", ""} {
			if err := n.SetWebhooksPosition(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			n.stop()
			n = start(t, s)
			if got, err := n.WebhooksPosition(t.Context()); err != nil || got != want {
				t.Errorf("%q, %v, want %q", got, err, want)
			}
		}
		n.stop()
	})
}

// TestOnlyTheOwnerIsInCharge of what there is once in the store.
func TestOnlyTheOwnerIsInCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 2}), 2, nil)
		f.deal(func(int) int { return 1 })
		f.settled()
		a, b := f.nodes[0], f.nodes[1]
		if a.OwnsHome() || !b.OwnsHome() {
			t.Fatal("the wrong node is in charge")
		}
		nodes := []partition.SeenNode{{Name: "a", Nonce: 1}}
		if err := a.SeeNodes(t.Context(), nodes); !errors.Is(err, carillon.Unavailable) {
			t.Errorf("the other node: %v", err)
		}
		l := look(t, a, carillon.WatchQuery{Types: []carillon.EventType{"node"}})
		if err := b.SeeNodes(t.Context(), nodes); err != nil {
			t.Error(err)
		}
		f.deal(func(int) int { return 0 })
		f.settled()
		if err := a.SeeNodes(t.Context(), nil); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		got := l.got()
		if len(got) != 2 || got[0].Type != carillon.EventNodeJoined || got[1].Type != carillon.EventNodeLost ||
			got[1].Node != "a" {
			t.Errorf("told of %+v", got)
		}
		f.stop()
	})
}

// TestAWebhookIsWithinTheNodesBounds, or is refused by the field that is wrong for this node.
func TestAWebhookIsWithinTheNodesBounds(t *testing.T) {
	for _, c := range []struct {
		bounds carillon.Bounds
		field  string
	}{{carillon.Bounds{Headers: 64}, "webhooks[0].headers"}, {carillon.Bounds{Payload: 1 << 10}, "webhooks[0]"},
		{carillon.Bounds{Payload: 16 << 10}, ""}} {
		e := engine.New(engine.Config{Store: memory.New(memory.Options{Partitions: 1}), Limits: c.bounds})
		if err := e.Start(t.Context(), &stream{}); err != nil {
			t.Fatal(err)
		}
		_, err := e.PutNamespace(t.Context(), carillon.Namespace{Webhooks: []carillon.Webhook{{Name: "w",
			URL: "https://example.com", Types: []carillon.EventType{"run"},
			Headers: map[string]string{"Authorization": strings.Repeat("x", 100)}}}})
		if wrong, ok := errors.AsType[*carillon.Error](err); ok != (c.field != "") || ok && wrong.Field != c.field {
			t.Errorf("%+v: %v", c.bounds, err)
		}
		if err := e.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
