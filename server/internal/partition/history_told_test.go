package partition_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// TestTheEndOfARunIsTold with its queue and how long it took, retries included; a run that nobody had took no
// time.
func TestTheEndOfARunIsTold(t *testing.T) {
	var ends []delivery.Finished
	r := newRig(t, partition.Config{Events: partition.Events{
		Finished: func(f delivery.Finished) { ends = append(ends, f) }}})
	r.mustPut(carillon.Job{Name: "a"})
	r.failRun(r.deliver(1)[0])
	r.flush()
	began := r.now
	r.advance(time.Minute)
	second := r.deliver(1)[0]
	r.succeed(second)
	queue := second.Queue
	r.mustPut(carillon.Job{Name: "b"})
	if _, err := r.m.Jobs.Delete(r.now, keyOf("b")); err != nil {
		t.Fatal(err)
	}
	r.flush()
	want := []delivery.Finished{
		{Queue: queue, Status: carillon.RunSucceeded, Took: time.Duration(r.now - began)},
		{Queue: queue, Status: carillon.RunCancelled, Took: -1},
	}
	if !slices.Equal(ends, want) {
		t.Errorf("told %+v, want %+v", ends, want)
	}
}

// TestAFinishedRunNamesItsQueueAndLabels: they tell what it was when its job has gone. So does a record of
// times that did not run.
func TestAFinishedRunNamesItsQueueAndLabels(t *testing.T) {
	r := newRig(t, partition.Config{})
	labels := map[string]string{"team": "billing"}
	put := func(target carillon.Target) {
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Target: target, Labels: labels})
	}
	put(carillon.WorkerQueue("mail"))
	r.advance(10 * time.Second)
	mail := queueNamed("mail")
	r.succeed(r.deliverFrom(mail, 1)[0])
	put(carillon.Target{HTTP: &carillon.HTTPTarget{URL: "https://example.com/run"}})
	r.pause("a", true)
	r.advance(30 * time.Second)
	r.pause("a", false)
	r.flush()
	http := delivery.Queue{Namespace: carillon.DefaultNamespace, Kind: "http", Address: "example.com"}
	want := map[string]int{mail.String(): 1, http.String(): 1}
	got := map[string]int{}
	for _, run := range r.history("a") {
		got[run.Queue]++
		if !maps.Equal(run.Labels, labels) {
			t.Errorf("%v has the labels %v", run.Status, run.Labels)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("runs by queue: %v, want %v", got, want)
	}
}
