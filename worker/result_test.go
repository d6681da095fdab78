package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

func TestWhatAHandlerReturns(t *testing.T) {
	boom := errors.New("boom")
	tomorrow := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		handle func() error
		want   carillon.Result
	}{
		"nil":      {func() error { return nil }, carillon.Result{Outcome: carillon.OutcomeSuccess}},
		"an error": {func() error { return boom }, carillon.Result{Message: "boom"}},
		"discard": {func() error { return fmt.Errorf("why: %w", worker.Discard(boom)) },
			carillon.Result{Message: "why: boom", Permanent: true}},
		"discard of nothing": {func() error { return worker.Discard(nil) },
			carillon.Result{Outcome: carillon.OutcomeSuccess}},
		"retry after": {func() error { return worker.RetryAfter(time.Minute, boom) },
			carillon.Result{Message: "boom", RetryAfter: time.Minute}},
		"retry after nothing": {func() error { return worker.RetryAfter(time.Minute, nil) },
			carillon.Result{Message: "to be tried again after 1m", RetryAfter: time.Minute}},
		"reschedule": {func() error {
			return fmt.Errorf("not yet: %w",
				worker.Reschedule(tomorrow))
		}, carillon.Result{Outcome: carillon.OutcomeReschedule, At: tomorrow}},
		"reschedule, discarded": {func() error { return worker.Discard(worker.Reschedule(tomorrow)) },
			carillon.Result{Message: "to be attempted again at 2026-11-22T00:00:00Z", Permanent: true}},
		"reschedule at no time": {func() error { return worker.Reschedule(time.Time{}) },
			carillon.Result{Message: "worker.Reschedule: 0001-01-01 00:00:00 +0000 UTC is no time that a run can have"}},
		"much": {func() error { return errors.New(strings.Repeat("ä", 4096)) },
			carillon.Result{Message: strings.Repeat("ä", 2048)}},
		"a panic": {func() error { panic("oh") }, carillon.Result{Message: "panic: oh"}},
		"no end": {func() error { runtime.Goexit(); return nil },
			carillon.Result{Message: "the handler ended its goroutine"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				w := worker.New(s, worker.Options{})
				worker.Handle(w, "q", func(context.Context, carillon.Run, carillon.Data) error { return c.handle() })
				leave, left := start(t, w)
				n := s.next()
				n.deliver(run("1"))
				results := n.sent().Results
				if len(results) != 1 {
					t.Fatalf("results: %+v", results)
				}
				got := results[0]
				if name == "a panic" {
					if !strings.Contains(got.Message, "result_test.go") || len(got.Message) > carillon.MaxErrorBytes {
						t.Errorf("stack: %s", got.Message)
					}
					got.Message = got.Message[:len(c.want.Message)]
				}
				c.want.Token, c.want.RunID = "1", "run of 1"
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("got %+v, want %+v", got, c.want)
				}
				n.ack(results)
				leaveAndWait(t, s, leave, left)
			})
		})
	}
}

// loop cannot be written as JSON.
type loop struct{ Self *loop }

// TestWhatAHandlerReturnsAsItsResult: what is sent of it, and what is left out without harm to the outcome.
func TestWhatAHandlerReturnsAsItsResult(t *testing.T) {
	round := &loop{}
	round.Self = round
	for name, c := range map[string]struct {
		add  func(w *worker.Worker)
		want string
		logs string
	}{
		"JSON":              {returns(map[string]int{"n": 1}, nil), `{"n":1}`, ""},
		"zero":              {returns(0, nil), "0", ""},
		"nil":               {returns[map[string]int](nil, nil), "", ""},
		"nothing":           {returns[any](nil, nil), "", ""},
		"bytes":             {returns([]byte("\x00x"), nil), "\x00x", ""},
		"data":              {returns(carillon.Bytes([]byte("x"), "text/plain"), nil), "x", ""},
		"beside an error":   {returns(7, errors.New("no")), "7", ""},
		"zero and an error": {returns(0, errors.New("no")), "", ""},
		"as long as may be": {returns(bytes.Repeat([]byte("x"), carillon.MaxResponse), nil),
			strings.Repeat("x", carillon.MaxResponse), ""},
		"too long": {returns(bytes.Repeat([]byte("x"), carillon.MaxResponse+1), nil), "", "it has 65537 bytes"},
		"no JSON":  {returns(round, nil), "", "a *worker_test.loop cannot be written as JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				var log strings.Builder
				w := worker.New(s, worker.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
				c.add(w)
				leave, left := start(t, w)
				n := s.next()
				n.deliver(run("1"))
				results := n.sent().Results
				if len(results) != 1 || string(results[0].Response) != c.want ||
					(results[0].Outcome == carillon.OutcomeSuccess) == strings.Contains(name, "error") {
					t.Fatalf("results: %+v", results)
				}
				n.ack(results)
				leaveAndWait(t, s, leave, left)
				if got := log.String(); (got == "") != (c.logs == "") || !strings.Contains(got, c.logs) {
					t.Errorf("log: %s", got)
				}
			})
		})
	}
}

// returns adds a handler that returns out and err.
func returns[Out any](out Out, err error) func(w *worker.Worker) {
	return func(w *worker.Worker) {
		worker.HandleResult(w, "q", func(context.Context, carillon.Run, carillon.Data) (Out, error) { return out, err })
	}
}
