package clienttest_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

// stub is a Scheduler that remembers what it was asked and answers what the test says.
type stub struct {
	carillon.Scheduler
	asked []any
	err   error

	backfill carillon.Backfill
	skip     carillon.SkipResult
	space    carillon.Namespace
	run      carillon.Run
}

func (s *stub) ask(asked ...any) error {
	s.asked = asked
	return s.err
}

func (s *stub) SetPaused(_ context.Context, k carillon.Key, p carillon.PauseOptions) (carillon.Job, error) {
	return s.skip.Job, s.ask(k, p)
}

func (s *stub) SkipRun(_ context.Context, k carillon.Key) (carillon.SkipResult, error) {
	return s.skip, s.ask(k)
}

func (s *stub) CompleteRun(_ context.Context, ns string, r carillon.Result) error {
	return s.ask(ns, r)
}

func (s *stub) GetRun(_ context.Context, ns, id string) (carillon.Run, error) {
	return s.run, s.ask(ns, id)
}

func (s *stub) StartBackfill(_ context.Context, k carillon.Key,
	spec carillon.BackfillSpec) (carillon.Backfill, error) {
	return s.backfill, s.ask(k, spec)
}

func (s *stub) GetBackfill(_ context.Context, ns, id string) (carillon.Backfill, error) {
	return s.backfill, s.ask(ns, id)
}

func (s *stub) ListBackfills(_ context.Context, k carillon.Key) ([]carillon.Backfill, error) {
	return []carillon.Backfill{s.backfill, {ID: "other"}}, s.ask(k)
}

var timetable = carillon.Timetable{
	Times: []carillon.PlannedTime{{Scheduled: time.Unix(1e9, 0).UTC(), Due: time.Unix(1e9+3, 0).UTC(), Past: true,
		Offset: 2 * time.Hour, Shift: -time.Hour}},
	End:      &carillon.TimesEnd{Code: carillon.EndTTL, Text: "It ends."},
	Excluded: &carillon.ExcludedTime{At: time.Unix(1e9-1, 0).UTC(), By: []string{"off"}},
}

func (s *stub) ListTimes(_ context.Context, q carillon.TimesQuery) (carillon.Timetable, error) {
	return timetable, s.ask(q)
}

func (s *stub) CancelBackfill(_ context.Context, ns, id string) (carillon.Backfill, error) {
	return s.backfill, s.ask(ns, id)
}

func (s *stub) GetNamespace(_ context.Context, name string) (carillon.Namespace, error) {
	return s.space, s.ask(name)
}

func (s *stub) ListNamespaces(_ context.Context, q carillon.NamespaceQuery) (carillon.NamespacePage, error) {
	return carillon.NamespacePage{Namespaces: []carillon.Namespace{s.space}, NextPageToken: "n"}, s.ask(q)
}

func (s *stub) PutNamespace(_ context.Context, ns carillon.Namespace) (carillon.Namespace, error) {
	return s.space, s.ask(ns)
}

// wordCall is a call with what the scheduler must be asked and the caller must get.
type wordCall struct {
	name  string
	call  func(ctx context.Context, c *client.Client) (any, error)
	asked []any
	want  any
}

func wordCalls(s *stub) []wordCall {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	k := carillon.Key{Namespace: "ns", Name: "a/b"}
	spec := carillon.BackfillSpec{From: at, To: at.Add(time.Hour), Overlap: carillon.OverlapAllow, Rate: 0.5}
	s.backfill = carillon.Backfill{ID: "b", Namespace: "ns", Job: "a/b", Spec: spec,
		Status: carillon.BackfillCancelled, Total: 1 << 60,
		Begun: 3, Succeeded: 2, Failed: 1, Next: at, Created: at, Finished: at.Add(1)}
	s.skip = carillon.SkipResult{Time: at, Job: carillon.Job{Namespace: "ns", Name: "a/b",
		Status: &carillon.JobStatus{Phase: carillon.PhaseWaiting, Waiting: []string{"c"}}}}
	s.space = carillon.Namespace{Name: "ns", Strict: true, ConcurrencyLimits: map[string]int{"k": 3, "none": 0}}
	s.run = carillon.Run{ID: "r", Progress: &carillon.Progress{Percent: 12.5, Message: "m",
		At: at}, Backfill: "b"}
	progress := carillon.Result{Token: "t", RunID: "r", Outcome: carillon.OutcomeProgress,
		Progress: carillon.Progress{Percent: 1}}
	later := carillon.Result{Token: "t", RunID: "r", Outcome: carillon.OutcomeReschedule, At: at}
	pause := func(p carillon.PauseOptions) func(context.Context, *client.Client) (any, error) {
		return func(ctx context.Context, c *client.Client) (any, error) { return c.SetPaused(ctx, k, p) }
	}
	complete := func(r carillon.Result) func(context.Context, *client.Client) (any, error) {
		return func(ctx context.Context, c *client.Client) (any, error) { return nil, c.CompleteRun(ctx, "ns", r) }
	}
	return []wordCall{
		{"pause", pause(carillon.PauseOptions{Paused: true, Note: "n"}),
			[]any{k, carillon.PauseOptions{Paused: true, Note: "n"}}, s.skip.Job},
		{"resume", pause(carillon.PauseOptions{Note: "n", CatchUp: true}),
			[]any{k, carillon.PauseOptions{Note: "n", CatchUp: true}}, s.skip.Job},
		{"skip", func(ctx context.Context, c *client.Client) (any, error) { return c.SkipRun(ctx, k) },
			[]any{k}, s.skip},
		{"run", func(ctx context.Context, c *client.Client) (any, error) { return c.GetRun(ctx, "ns", "r") },
			[]any{"ns", "r"}, s.run},
		{"progress", complete(progress), []any{"ns", progress}, nil},
		{"reschedule", complete(later), []any{"ns", later}, nil},
		{"start", func(ctx context.Context, c *client.Client) (any,
			error) {
			return c.StartBackfill(ctx, k, spec)
		}, []any{k, spec}, s.backfill},
		{"get", func(ctx context.Context, c *client.Client) (any,
			error) {
			return c.GetBackfill(ctx, "ns", "b")
		}, []any{"ns", "b"}, s.backfill},
		{"list times", func(ctx context.Context, c *client.Client) (any, error) {
			return c.ListTimes(ctx, carillon.TimesQuery{Key: k, Count: 3})
		}, []any{carillon.TimesQuery{Key: k, Count: 3}}, timetable},
		{"list", func(ctx context.Context, c *client.Client) (any, error) { return c.ListBackfills(ctx, k) },
			[]any{k}, []carillon.Backfill{s.backfill, {ID: "other"}}},
		{"cancel", func(ctx context.Context, c *client.Client) (any,
			error) {
			return c.CancelBackfill(ctx, "ns", "b")
		}, []any{"ns", "b"}, s.backfill},
		{"get namespace", func(ctx context.Context, c *client.Client) (any,
			error) {
			return c.GetNamespace(ctx, "ns")
		}, []any{"ns"}, s.space},
		{"list namespaces", func(ctx context.Context, c *client.Client) (any, error) {
			return c.ListNamespaces(ctx, carillon.NamespaceQuery{PageSize: 3, PageToken: "t"})
		}, []any{carillon.NamespaceQuery{PageSize: 3, PageToken: "t"}},
			carillon.NamespacePage{Namespaces: []carillon.Namespace{s.space}, NextPageToken: "n"}},
		{"put namespace", func(ctx context.Context, c *client.Client) (any,
			error) {
			return c.PutNamespace(ctx, s.space)
		}, []any{s.space}, s.space},
	}
}

// TestWordsCross: what the caller says reaches the scheduler as it is, what the scheduler answers reaches the
// caller, and so do errors.
func TestWordsCross(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{}
		_, c := serve(t, s)
		for _, w := range wordCalls(s) {
			s.err, s.asked = nil, nil
			got, err := w.call(t.Context(), c)
			if err != nil || !reflect.DeepEqual(s.asked, w.asked) || !reflect.DeepEqual(got, w.want) {
				t.Errorf("%s: asked\n%+v, want\n%+v; got\n%+v, want\n%+v; %v", w.name, s.asked, w.asked, got, w.want, err)
			}
			s.err = carillon.Errorf(carillon.NotFound, "id", "gone")
			_, err = w.call(t.Context(), c)
			if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.NotFound ||
				e.Field != "id" || e.Message != "gone" {
				t.Errorf("%s: %v", w.name, err)
			}
		}
	})
}

// TestABackfillWithoutAnEnd: it ends now, by the server's clock.
func TestABackfillWithoutAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{}
		_, c := serve(t, s)
		from := time.Now().Add(-time.Hour)
		if _, err := c.StartBackfill(t.Context(), carillon.Key{Name: "a"},
			carillon.BackfillSpec{From: from}); err != nil {
			t.Fatal(err)
		}
		if spec := s.asked[1].(carillon.BackfillSpec); !spec.From.Equal(from) || !spec.To.Equal(time.Now()) {
			t.Errorf("asked for %+v at %v", spec, time.Now())
		}
	})
}

var _ carillon.Scheduler = (*stub)(nil)

// serve is a scheduler behind a wire, until the test ends.
func serve(t *testing.T, s carillon.Scheduler, o ...grpcapi.Options) (*wire, *client.Client) {
	t.Helper()
	w := newWire()
	g := grpcapi.NewServer(grpcapi.NewService(s, append(o, grpcapi.Options{})[0]))
	served := make(chan error, 1)
	go func() { served <- g.Serve(w) }()
	c := w.dial(t)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return w, c
}
