package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/store/memory"
)

// Budgets for the most frequent operations, in allocations, which unlike times are the same on every machine.
// Each is what was measured and a little more. Whoever raises a budget says why, and whoever makes a number
// fall lowers it.
const (
	putAllocs    = 32.0 // a put through the engine, on the memory store
	fireAllocs   = 69.0 // the life of a one-shot through engine and hub: put, fire, success, each durable
	decodeAllocs = 11.0 // a put from its bytes to a job that has been checked
	answerAllocs = 3.0  // the message that answers a put, to its bytes
)

// raceDetector is set where the race detector is on, which allocates on its own.
var raceDetector bool

// within fails if f allocates more than its budget.
func within(t *testing.T, budget float64, f func()) {
	t.Helper()
	if raceDetector {
		t.Skip("allocations are not the same under the race detector")
	}
	if n := testing.AllocsPerRun(2000, f); n > budget {
		t.Errorf("%.0f allocations, the budget is %.0f", n, budget)
	} else {
		t.Logf("%.0f allocations, the budget is %.0f", n, budget)
	}
}

// reminders makes one-shots with a small payload, each under a name of its own.
func reminders(due string) func() carillon.Job {
	n := 0
	data := carillon.Bytes(make([]byte, 100), carillon.ContentTypeJSON)
	return func() carillon.Job {
		n++
		return carillon.Job{Namespace: "default", Name: fmt.Sprintf("reminders/%d", n), Due: carillon.WhenText(due),
			Target: carillon.WorkerQueue("q"), Data: data}
	}
}

func TestAllocationsOfAPut(t *testing.T) {
	n := start(t, memory.New(memory.Options{Partitions: 1}))
	defer n.stop()
	next := reminders("2200-01-01T00:00:00Z")
	within(t, putAllocs, func() {
		if _, err := n.PutJob(context.Background(), next()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAllocationsOfAFire(t *testing.T) {
	n := start(t, memory.New(memory.Options{Partitions: 1}))
	defer n.stop()
	s, err := n.hub.Connect(context.Background(),
		carillon.Hello{Namespace: "default", Queues: []string{"q"}, WorkerID: "w"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	request := carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 1}}}
	next := reminders("")
	within(t, fireAllocs, func() {
		if _, err := n.PutJob(context.Background(), next()); err != nil {
			t.Fatal(err)
		}
		if err := s.Send(context.Background(), request); err != nil {
			t.Fatal(err)
		}
		request.Results = request.Results[:0]
		for acked := false; !acked; {
			msg, err := s.Receive(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range msg.Runs {
				result := carillon.Result{Token: r.Token, RunID: r.ID, Outcome: carillon.OutcomeSuccess}
				if err := s.Send(context.Background(),
					carillon.WorkRequest{Results: []carillon.Result{result}}); err != nil {
					t.Fatal(err)
				}
			}
			acked = len(msg.Acks) > 0
		}
	})
}

func TestAllocationsOfAPutOnTheWire(t *testing.T) {
	job := reminders("2200-01-01T00:00:00Z")()
	raw, err := proto.Marshal(wire.JobToProto(&job))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("decode", func(t *testing.T) {
		within(t, decodeAllocs, func() {
			var m pb.Job
			if err := proto.Unmarshal(raw, &m); err != nil {
				t.Fatal(err)
			}
			j, err := wire.JobFromProto(&m)
			if err != nil {
				t.Fatal(err)
			}
			if err := j.Validate(carillon.DefaultBounds()); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("answer", func(t *testing.T) {
		at := time.Unix(1_800_000_000, 0)
		job.Status = &carillon.JobStatus{Generation: 1, Created: at, Updated: at, NextRun: at}
		put := carillon.PutResult{Job: job, Created: true, Changed: true}
		within(t, answerAllocs, func() {
			if _, err := proto.Marshal(wire.PutToProto(&put)); err != nil {
				t.Fatal(err)
			}
		})
	})
}
