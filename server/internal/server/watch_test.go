package server_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/worker"
)

func TestWhatHappensIsTold(t *testing.T) {
	everywhere(t, func(w *rig) {
		ctx, cancel := context.WithCancel(w.t.Context())
		batches, ended := make(chan carillon.EventBatch, 100), make(chan error, 1)
		go func() {
			ended <- w.another().Watch(ctx, carillon.WatchQuery{}, func(b carillon.EventBatch) error {
				batches <- b
				return nil
			})
		}()
		if first := await(w.t, batches); len(first.Events) != 0 || first.Position == "" {
			w.t.Errorf("the first batch is %+v", first)
		}
		stop := w.work(w.sched, worker.Options{}, func(context.Context, carillon.Run, []byte) error {
			return errors.New("not today")
		})
		w.put(carillon.Job{Name: "a", FailurePolicy: carillon.Drop()})
		var got []carillon.Event
		for len(got) < 2 {
			got = append(got, await(w.t, batches).Events...)
		}
		stop()
		if got[0].Type != carillon.EventJobCreated || got[1].Type != carillon.EventRunFailed ||
			got[1].Error != "not today" || got[1].Attempt != 1 || got[1].Time.IsZero() {
			w.t.Errorf("told %+v", got)
		}
		w.ended(got[1].Run, carillon.RunFailed, 1)
		cancel()
		if err := await(w.t, ended); !errors.Is(err, context.Canceled) && carillon.KindOf(err) != carillon.Canceled {
			w.t.Errorf("it ended with %v", err)
		}
	})
}

// TestANodeThatLeavesEndsItsStreams at once, and says that they can go on elsewhere.
func TestANodeThatLeavesEndsItsStreams(t *testing.T) {
	s, stop := serveUntil(t, server.Config{Store: "memory:", Partitions: 2})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.HTTPAddr()+"/v1/events:watch",
		http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := (&http.Client{}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	lines := bufio.NewScanner(reply.Body)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "id: ") {
		t.Fatalf("%s: %q", reply.Status, lines.Text())
	}
	stop() // which fails if the server does not end
	last := ""
	for lines.Scan() {
		if lines.Text() != "" {
			last = lines.Text()
		}
	}
	if !strings.Contains(last, `"code":"unavailable"`) {
		t.Errorf("the last line is %q, %v", last, lines.Err())
	}
}
