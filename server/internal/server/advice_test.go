package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
)

func TestAPutIsToldOfItsTarget(t *testing.T) {
	n, err := server.Start(t.Context(), server.Config{Store: "memory:"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close(context.Background()) })
	warned := func(target carillon.Target) string {
		put, err := n.Scheduler().PutJob(t.Context(),
			carillon.Job{Schedule: "@every 1h", Target: target, Due: carillon.In(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(put.Warnings, "\n")
	}
	if got := warned(carillon.WorkerQueue("mail")); !strings.HasPrefix(got,
		`target.worker.queue: nobody serves queue "mail"`) {
		t.Errorf("unserved: %q", got)
	}
	s, err := n.Scheduler().Connect(t.Context(),
		carillon.Hello{Namespace: "default", Queues: []string{"mail"}, WorkerID: "w"})
	if err != nil {
		t.Fatal(err)
	}
	if got := warned(carillon.WorkerQueue("mail")); got != "" {
		t.Errorf("served: %q", got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := warned(carillon.Target{HTTP: &carillon.HTTPTarget{URL: "http://127.0.0.1:8080/x"}}); !strings.HasPrefix(got, "target.http.url: ") {
		t.Errorf("loopback: %q", got)
	}
	if got := warned(carillon.Target{HTTP: &carillon.HTTPTarget{URL: "https://example.com/x"}}); got != "" {
		t.Errorf("a name: %q", got)
	}
}
