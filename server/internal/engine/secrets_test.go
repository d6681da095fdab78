package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store/memory"
)

// startWithout starts a node whose secrets are gone once there is a word in gone.
func startWithout(t *testing.T, gone *string) *node {
	return startWith(t, engine.Config{Store: memory.New(memory.Options{Partitions: 5}),
		Secrets: func(string, *carillon.HTTPTarget) error {
			if *gone != "" {
				return carillon.Errorf(carillon.InvalidArgument, "target.http.headers", "%s", *gone)
			}
			return nil
		}})
}

// TestASecretThatIsGoneStopsNoOtherSettings: only webhooks that are new or changed need theirs.
func TestASecretThatIsGoneStopsNoOtherSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := ""
		n, ctx := startWithout(t, &gone), context.Background()
		settings := func(limit int, url, value string) carillon.Namespace {
			return carillon.Namespace{Name: "shop", ConcurrencyLimits: map[string]int{"k": limit},
				Webhooks: []carillon.Webhook{{Name: "w", URL: url, Types: []carillon.EventType{"run.dead"},
					Headers: map[string]string{"X-Key": value}}}}
		}
		const url, value = "https://a.test/", "secret://a"
		if _, err := n.PutNamespace(ctx, settings(1, url, value)); err != nil {
			t.Fatal(err)
		}
		gone = "it is gone"
		if put, err := n.PutNamespace(ctx, settings(2, url, value)); err != nil || put.ConcurrencyLimits["k"] != 2 {
			t.Errorf("another setting: %v", err)
		}
		for _, changed := range []carillon.Namespace{settings(2, "https://b.test/", value), settings(2, url, "secret://b")} {
			_, err := n.PutNamespace(ctx, changed)
			if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Field != "webhooks[0].headers" {
				t.Errorf("%+v: %v", changed.Webhooks, err)
			}
		}
		n.stop()
	})
}

// TestACommandDoesNotWaitForItsSecret: it would be refused for good. What is no reference is refused.
func TestACommandDoesNotWaitForItsSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := "it is not there yet"
		n := startWithout(t, &gone)
		job := &carillon.Job{Due: carillon.In(time.Hour), Target: carillon.HTTP("https://a.test/")}
		job.Target.HTTP.Headers = map[string]string{"X-Key": "secret://a"}
		if _, err := n.do("r", "a", job); err != nil {
			t.Errorf("a command: %v", err)
		}
		called := *job
		called.Name = "b"
		if _, err := n.PutJob(context.Background(), called); !errors.Is(err, carillon.InvalidArgument) {
			t.Errorf("a call: %v", err)
		}
		job.Target.HTTP.Headers = map[string]string{"X-Key": "a b secret://a"}
		if _, err := n.do("s", "c", job); !errors.Is(err, carillon.InvalidArgument) {
			t.Errorf("a command with what is no reference: %v", err)
		}
		n.stop()
	})
}

// TestAPatchIsCheckedAsAPut: a target that the node cannot deliver to is refused by both.
func TestAPatchIsCheckedAsAPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, ctx := startWith(t, engine.Config{Store: memory.New(memory.Options{Partitions: 5}),
			Supports: func(target *carillon.Target) error {
				if target.HTTP != nil {
					return carillon.Errorf(carillon.InvalidArgument, "target.http", "not supported yet")
				}
				return nil
			}}), context.Background()
		job := carillon.Job{Name: "a", Due: carillon.In(time.Hour), Target: carillon.Target{Worker: &carillon.WorkerTarget{Queue: "q"}}}
		if _, err := n.PutJob(ctx, job); err != nil {
			t.Fatal(err)
		}
		job.Target = carillon.HTTP("https://a.test/")
		_, put := n.PutJob(ctx, job)
		_, patched := n.PatchJob(ctx, carillon.Key{Namespace: "default", Name: "a"},
			carillon.Patch{Fields: []string{"target"}, Job: job})
		for what, err := range map[string]error{"put": put, "patch": patched} {
			if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Field != "target.http" {
				t.Errorf("a %s: %v", what, err)
			}
		}
		n.stop()
	})
}
