package partition_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
)

func TestAPatchChangesWhatItNames(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Labels: map[string]string{"k": "v"},
		Note: "n", Paused: true})
	r.advance(5 * time.Second)
	patch := func(p carillon.Patch) (carillon.PutResult, error) {
		r.bring(keyOf("a"))
		put, err := r.m.Jobs.Patch(r.now, 0, keyOf("a"), p, "")
		r.flush()
		return put, err
	}
	put, err := patch(carillon.Patch{Fields: []string{"overlap", "labels"},
		Job: carillon.Job{Overlap: carillon.OverlapAllow, Note: "not named"}})
	if err != nil || put.Job.Overlap != carillon.OverlapAllow || len(put.Job.Labels) != 0 ||
		put.Job.Note != "n" || !put.Job.Paused ||
		put.Job.Status.Generation != 2 {
		t.Fatalf("%+v %v", put, err)
	}
	put, err = patch(carillon.Patch{Fields: []string{"paused"}, Job: carillon.Job{}, IfGeneration: 2})
	if err != nil || put.Job.Paused || put.Job.Status.NextRun.UnixNano() != epoch+10e9 {
		t.Fatalf("the phase is lost: %+v %v", put.Job.Status, err)
	}
	for want, p := range map[carillon.Kind]carillon.Patch{
		carillon.FailedPrecondition: {Fields: []string{"note"}, IfGeneration: 1},
		carillon.InvalidArgument:    {Fields: []string{"schedule"}, Job: carillon.Job{Schedule: "never"}},
	} {
		if _, err := patch(p); !errors.Is(err, want) {
			t.Fatalf("%+v: %v", p, err)
		}
	}
	if _, err := r.m.Jobs.Patch(r.now, 0, keyOf("b"),
		carillon.Patch{Fields: []string{"note"}}, ""); !errors.Is(err, carillon.NotFound) {
		t.Fatalf("no job: %v", err)
	}
	r.start()
	r.bring(keyOf("a"))
	if j, err := r.m.Records.Job(keyOf("a")); err != nil || j.Schedule != "@every 10s" || j.Note != "n" ||
		j.Overlap != carillon.OverlapAllow {
		t.Fatalf("%+v %v", j, err)
	}
}

// TestAPatchOfRepeatsKeepsTheCount raises the repeats of a job that has begun its last run, and then lowers
// them again.
func TestAPatchOfRepeatsKeepsTheCount(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Repeats: 2})
	patch := func(repeats uint64) carillon.Job {
		t.Helper()
		r.bring(keyA)
		put, err := r.m.Jobs.Patch(r.now, 0, keyA,
			carillon.Patch{Fields: []string{"repeats"}, Job: carillon.Job{Repeats: repeats}}, "")
		if err != nil {
			t.Fatal(err)
		}
		r.flush()
		return put.Job
	}
	r.advance(10 * time.Second)
	r.succeed(r.deliver(1)[0])
	r.advance(10 * time.Second)
	r.deliver(1)
	r.advance(15 * time.Second) // nobody knew of a third time yet
	if j := patch(4); j.Status.NextRun.UnixNano() != epoch+40e9 {
		t.Fatalf("with two more it runs next at %v", j.Status.NextRun)
	}
	if d := r.deliver(1)[0]; r.succeed(d) != partition.Accepted || d.Run.Attempt != 2 {
		t.Fatalf("attempt %d of the second run", d.Run.Attempt)
	}
	r.advance(5 * time.Second)
	r.succeed(r.deliver(1)[0])
	r.flush()
	if s := r.stored().State; s.Begun != 3 || s.Next != epoch+50e9 {
		t.Fatalf("%+v", s)
	}
	if patch(3); len(r.jobs()) != 0 || len(r.history("a")) != 3 {
		t.Fatalf("left: %+v", r.jobs())
	}
}
