package worker

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

func TestRunsAndResults(t *testing.T) {
	d := newFakeSink(Options{})
	s := d.connect(t, 3)
	d.deliver(t, 0, 1, 0)
	d.deliver(t, 1, 3, 0)
	if r := receive(t, s); !slices.Equal(tokens(r.Runs), []string{token(0), token(1), token(2)}) {
		t.Fatalf("not one message: %+v", r)
	}
	results := []carillon.Result{{Token: token(0), Outcome: carillon.OutcomeSuccess},
		{Token: "another session's"}}
	send(t, s, carillon.WorkRequest{Results: results})
	if len(d.reports) != 2 || d.reports[0].Worker != "w" || d.reports[1].Token != "another session's" {
		t.Fatalf("%+v", d.reports)
	}
	d.reports[0].From.Accepted(token(0))
	d.reports[1].From.Stale("another session's")
	want := carillon.WorkResponse{Acks: []string{token(0)}, Stale: []string{"another session's"}}
	if r := receive(t, s); !reflect.DeepEqual(r, want) {
		t.Fatalf("%+v", r)
	}
	if w := d.hub.Workers(); len(w) != 1 || w[0].InFlight != 2 || w[0].Namespace != "default" {
		t.Fatalf("%+v", w)
	}
}

// TestReconnect goes on with a token in another session: it can report it, and is told to stop it.
func TestReconnect(t *testing.T) {
	d := newFakeSink(Options{})
	s := d.connect(t, 2)
	d.deliver(t, 0, 2, 0)
	receive(t, s)
	_ = s.Close()
	s = d.connect(t, 0)
	send(t, s, carillon.WorkRequest{Heartbeats: []carillon.Heartbeat{{Token: token(0)}, {Token: token(1)}}})
	if len(d.heartbeats) != 2 {
		t.Fatalf("%v", d.heartbeats)
	}
	d.from.Stale(token(1))
	other := d.connect(t, 0)
	send(t, other, carillon.WorkRequest{Heartbeats: []carillon.Heartbeat{{Token: token(0)}}})
	d.hub.Cancel([]delivery.Cancel{{Queue: queue, Token: token(0)}, {Queue: queue, Token: token(1)}})
	if r := receive(t, s); !slices.Equal(r.Cancel, []string{token(0)}) ||
		!slices.Equal(r.Stale, []string{token(1)}) {
		t.Fatalf("%+v", r)
	}
	if r := receive(t, other); !slices.Equal(r.Cancel, []string{token(0)}) {
		t.Fatalf("only one of two holders was told: %+v", r)
	}
	if got := s.(*Session); len(got.adopted) != 0 || !got.stream.HoldsNone() {
		t.Fatalf("%d adopted", len(got.adopted))
	}
}

// TestABeatBesideAResult is not passed on: it might be heard after the attempt has ended, and be answered as
// stale.
func TestABeatBesideAResult(t *testing.T) {
	d := newFakeSink(Options{})
	s := d.connect(t, 2)
	d.deliver(t, 0, 2, 0)
	receive(t, s)
	send(t, s, carillon.WorkRequest{
		Heartbeats: []carillon.Heartbeat{{Token: token(0)}, {Token: token(1)}},
		Results: []carillon.Result{{Token: token(0), Outcome: carillon.OutcomeSuccess},
			{Token: token(1), Outcome: carillon.OutcomeProgress}},
	})
	if len(d.heartbeats) != 1 || d.heartbeats[0].Token != token(1) || len(d.reports) != 2 {
		t.Errorf("beats %v, %d reports", d.heartbeats, len(d.reports))
	}
}

func TestCreditsRefused(t *testing.T) {
	d := newFakeSink(Options{MaxCredits: 10})
	s := d.connect(t, 8)
	d.deliver(t, 0, 5, 0)
	for _, c := range []struct {
		credit carillon.Credit
		kind   carillon.Kind
		field  string
	}{
		{carillon.Credit{Queue: "q", N: 3}, carillon.ResourceExhausted, "credits.n"},
		{carillon.Credit{Queue: "q", N: 1<<63 - 1}, carillon.ResourceExhausted, "credits.n"},
		{carillon.Credit{Queue: "other", N: 1}, carillon.InvalidArgument, "credits.queue"},
	} {
		err := s.Send(ctx, carillon.WorkRequest{Credits: []carillon.Credit{c.credit},
			Results: []carillon.Result{{Token: "r"}}})
		e, ok := errors.AsType[*carillon.Error](err)
		if !ok || e.Kind != c.kind || e.Field != c.field {
			t.Errorf("%+v: %v", c.credit, err)
		}
	}
	if len(d.reports) != 3 {
		t.Errorf("%d results of refused messages were taken", len(d.reports))
	}
	send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 2}, {Queue: "q"}}})
}
