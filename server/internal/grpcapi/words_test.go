package grpcapi

import (
	"context"
	"maps"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// TestPauses: who may catch up, and why a job is paused, reach the scheduler.
func TestPauses(t *testing.T) {
	var got carillon.PauseOptions
	c := dial(t, &stub{pause: func(_ context.Context, k carillon.Key, p carillon.PauseOptions) (carillon.Job, error) {
		got = p
		return carillon.Job{Name: k.Name}, nil
	}}, Options{})
	if _, err := c.PauseJob(t.Context(), &pb.PauseJobRequest{Name: "x", Note: "why"}); err != nil ||
		got != (carillon.PauseOptions{Paused: true, Note: "why"}) {
		t.Errorf("pause: %+v, %v", got, err)
	}
	_, err := c.ResumeJob(t.Context(), &pb.ResumeJobRequest{Name: "x", Note: "back", CatchUp: true})
	if err != nil || got != (carillon.PauseOptions{Note: "back", CatchUp: true}) {
		t.Errorf("resume: %+v, %v", got, err)
	}
}

// TestEndOfABackfill: a stretch without an end ends now, by the node's clock; one with an end keeps it.
func TestEndOfABackfill(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	var got carillon.BackfillSpec
	c := dial(t, &stub{start: func(_ context.Context, k carillon.Key, s carillon.BackfillSpec) (carillon.Backfill, error) {
		got = s
		return carillon.Backfill{ID: "b", Job: k.Name, Spec: s}, nil
	}}, Options{Now: func() time.Time { return now }})
	from := now.Add(-time.Hour)
	b, err := c.StartBackfill(t.Context(), &pb.StartBackfillRequest{Name: "x", From: timestamppb.New(from)})
	if err != nil || !got.From.Equal(from) || !got.To.Equal(now) || !b.GetTo().AsTime().Equal(now) {
		t.Errorf("without an end: %+v, %v", got, err)
	}
	_, err = c.StartBackfill(t.Context(),
		&pb.StartBackfillRequest{Name: "x", From: timestamppb.New(from), To: timestamppb.New(from), Rate: 2})
	if err != nil || !got.To.Equal(from) || got.Rate != 2 {
		t.Errorf("with an end: %+v, %v", got, err)
	}
	// the zero time
	_, err = c.StartBackfill(t.Context(),
		&pb.StartBackfillRequest{Name: "x", To: &timestamppb.Timestamp{Seconds: -62135596800}})
	if err != nil || !got.To.IsZero() {
		t.Errorf("an end that is the zero time became %v, %v", got.To, err)
	}
}

func TestSkipAndSettings(t *testing.T) {
	var got carillon.Namespace
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := dial(t, &stub{
		skip: func(_ context.Context, k carillon.Key) (carillon.SkipResult, error) {
			return carillon.SkipResult{Time: at, Job: carillon.Job{Namespace: k.Namespace, Name: k.Name}}, nil
		},
		putNS: func(_ context.Context, ns carillon.Namespace) (carillon.Namespace, error) {
			got = ns
			return ns, nil
		},
	}, Options{})
	skip, err := c.SkipRun(t.Context(), &pb.SkipRunRequest{Name: "x"})
	if err != nil || !skip.GetTime().AsTime().Equal(at) || skip.GetJob().GetNamespace() != "default" {
		t.Errorf("skip: %v, %v", skip, err)
	}
	ns, err := c.PutNamespace(t.Context(),
		&pb.PutNamespaceRequest{Strict: true, ConcurrencyLimits: map[string]int32{"k": 3}})
	if err != nil || got.Name != "default" || !got.Strict ||
		!maps.Equal(got.ConcurrencyLimits, map[string]int{"k": 3}) || ns.GetConcurrencyLimits()["k"] != 3 {
		t.Errorf("settings: %+v, %v, %v", got, ns, err)
	}
}

// TestResultsOfAWorker: progress and reschedules reach the session; one that is wrong ends the stream, by
// name.
func TestResultsOfAWorker(t *testing.T) {
	s := newSession()
	c := dial(t, &stub{connect: func(context.Context, carillon.Hello) (carillon.Session, error) {
		return s, nil
	}}, Options{})
	w, err := c.Work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	send := func(m *pb.WorkRequest) {
		if err := w.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	send(&pb.WorkRequest{Hello: &pb.Hello{Queues: []string{"q"}}})
	send(&pb.WorkRequest{Results: []*pb.Result{
		{Token: "1", Outcome: pb.Outcome_OUTCOME_PROGRESS, Progress: &pb.Progress{Percent: 50, Message: "half"}},
		{Token: "2", Outcome: pb.Outcome_OUTCOME_RESCHEDULE, At: timestamppb.New(at)},
	}})
	<-s.sent // what came with the hello
	got := (<-s.sent).Results
	if len(got) != 2 || got[0].Outcome != carillon.OutcomeProgress ||
		got[0].Progress != (carillon.Progress{Percent: 50, Message: "half"}) ||
		got[1].Outcome != carillon.OutcomeReschedule || !got[1].At.Equal(at) {
		t.Errorf("the session got %+v", got)
	}
	send(&pb.WorkRequest{Results: []*pb.Result{{Token: "1", Outcome: pb.Outcome_OUTCOME_RESCHEDULE}}})
	_, err = w.Recv()
	if e := problemOf(t, err); e.Field != "results[0].at" {
		t.Errorf("got %v", e)
	}
}
