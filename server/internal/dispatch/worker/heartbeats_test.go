package worker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
)

// TestARefusedBeatAnswersNoResult: it was on its way when the worker reported, and the result counts, or does
// not, by itself.
func TestARefusedBeatAnswersNoResult(t *testing.T) {
	d := newFakeSink(Options{MaxCredits: 4})
	s := d.connect(t, 3)
	d.deliver(t, 0, 3, 0)
	receive(t, s)
	send(t, s, carillon.WorkRequest{Heartbeats: []carillon.Heartbeat{{Token: token(0)}, {Token: token(1)},
		{Token: token(2)}}})
	send(t, s, carillon.WorkRequest{Results: []carillon.Result{
		{Token: token(0), Outcome: carillon.OutcomeSuccess}, {Token: token(1), Outcome: carillon.OutcomeSuccess}}})
	for i := range 3 {
		d.from.Stale(token(i))
	}
	d.reports[0].From.Accepted(token(0))
	d.reports[1].From.Stale(token(1))
	r := receive(t, s)
	if want := []string{token(2), token(1)}; !slices.Equal(r.Acks, []string{token(0)}) ||
		!slices.Equal(r.Stale, want) {
		t.Errorf("accepted %v, stale %v, want %v", r.Acks, r.Stale, want)
	}
}

// TestABeatOfMoreThanIsHeldIsRefused as the session cannot know whether the worker has reported.
func TestABeatOfMoreThanIsHeldIsRefused(t *testing.T) {
	d := newFakeSink(Options{MaxCredits: 2})
	s := d.connect(t, 0)
	var r carillon.WorkRequest
	var all []string
	for i := range 3 {
		all = append(all, fmt.Sprint("elsewhere-", i))
		r.Heartbeats = append(r.Heartbeats, carillon.Heartbeat{Token: all[i]})
	}
	send(t, s, r)
	for _, token := range slices.Backward(all) {
		d.from.Stale(token)
	}
	if got := receive(t, s).Stale; !slices.Equal(got, []string{all[2], all[1], all[0]}) {
		t.Errorf("stale %v", got)
	}
}
