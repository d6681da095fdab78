package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

func TestErrorsAreTheSameEverywhere(t *testing.T) {
	everywhere(t, func(w *rig) {
		ctx := w.t.Context()
		for name, c := range map[string]struct {
			kind  carillon.Kind
			field string
			call  func() error
		}{
			"bad schedule": {carillon.InvalidArgument, "schedule", func() error {
				_, err := w.sched.PutJob(ctx,
					carillon.Job{Name: "a", Schedule: "61 * * * *", Target: carillon.WorkerQueue(queue)})
				return err
			}},
			"bad payload": {carillon.InvalidArgument, "data", func() error {
				_, err := w.sched.PutJob(ctx,
					carillon.Job{Name: "a", Data: carillon.JSON(func() {}), Target: carillon.WorkerQueue(queue)})
				return err
			}},
			"in a batch": {carillon.InvalidArgument, "jobs[1].target", func() error {
				_, err := w.sched.PutJobs(ctx, []carillon.Job{{Name: "a", Target: carillon.WorkerQueue(queue)},
					{Name: "b"}})
				return err
			}},
			"no job": {carillon.NotFound, "name",
				func() error { _, err := w.sched.GetJob(ctx, key("none")); return err }},
			"no run": {carillon.InvalidArgument, "id",
				func() error { _, err := w.sched.GetRun(ctx, "default", "none"); return err }},
			"prefix": {carillon.InvalidArgument, "prefix",
				func() error { _, err := w.sched.DeleteJobs(ctx, "default", ""); return err }},
			"token": {carillon.InvalidArgument, "token", func() error {
				return w.sched.CompleteRun(ctx, "default", carillon.Result{Token: "x", Outcome: carillon.OutcomeSuccess})
			}},
		} {
			err := c.call()
			e, ok := errors.AsType[*carillon.Error](err)
			if !ok || e.Kind != c.kind || e.Field != c.field || e.Message == "" || e.Unknown {
				w.t.Errorf("%s: %#v", name, err)
			}
		}
	})
}

// mostOfAName is how long an error or a warning may be that is about a name, whatever the name is.
const mostOfAName = 400

// TestNamesAreClippedInErrors: what is refused, is not there or may not do what its author expects is named
// by a part of its name.
func TestNamesAreClippedInErrors(t *testing.T) {
	everywhere(t, func(w *rig) {
		longest, huge := strings.Repeat("n", carillon.MaxName), strings.Repeat("h", 10_000)
		for what, err := range refusals(w, longest, huge) {
			switch {
			case err == nil:
				w.t.Errorf("%s: nothing is refused", what)
			case len(err.Error()) > mostOfAName:
				w.t.Errorf("%s: %d bytes: %.120s", what, len(err.Error()), err)
			}
		}
		warned, err := w.sched.PutJob(w.t.Context(),
			carillon.Job{Namespace: strings.Repeat("a", 63), Name: longest, Schedule: "@every 1h",
				DependsOn: []string{strings.Repeat("o",
					carillon.MaxName)}, ConcurrencyKey: strings.Repeat("l", 256), Target: carillon.WorkerQueue(longest)})
		if err != nil || len(warned.Warnings) < 3 {
			w.t.Fatalf("%q, %v; want a warning for the queue, the key and the job waited for", warned.Warnings, err)
		}
		for _, text := range warned.Warnings {
			if len(text) > mostOfAName {
				w.t.Errorf("a warning has %d bytes: %.120s", len(text), text)
			}
		}
	})
}

// refusals are the errors of calls about a job of the longest name that there may be, and about names that
// are longer.
func refusals(w *rig, longest, huge string) map[string]error {
	ctx, s, out := w.t.Context(), w.sched, map[string]error{}
	job := func(name string) carillon.Job {
		return carillon.Job{Name: name, Due: carillon.WhenText("1h"), Target: carillon.WorkerQueue("q")}
	}
	_, out["get"] = s.GetJob(ctx, carillon.Key{Name: longest})
	_, out["get, huge"] = s.GetJob(ctx, carillon.Key{Name: huge})
	_, out["delete"] = s.DeleteJob(ctx, carillon.Key{Name: longest})
	_, out["put over nothing"] = s.PutJob(ctx, job(longest), carillon.IfGeneration(3))
	if _, err := s.PutJob(ctx, job(longest)); err != nil {
		w.t.Fatal(err)
	}
	_, out["put where one is"] = s.PutJob(ctx, job(longest), carillon.IfAbsent())
	_, out["put over another"] = s.PutJob(ctx, job(longest), carillon.IfGeneration(7))
	_, out["delete of another"] = s.DeleteJob(ctx, carillon.Key{Name: longest}, carillon.IfGeneration(7))
	_, out["skip"] = s.SkipRun(ctx, carillon.Key{Name: longest + "x"})
	_, out["put, huge"] = s.PutJob(ctx, job(huge))
	_, out["put, not printable"] = s.PutJob(ctx, job(longest[:400]+"\n"))
	twice := job("twice")
	twice.DependsOn = []string{longest, longest}
	_, out["after twice"] = s.PutJob(ctx, twice)
	_, out["batch of the same"] = s.PutJobs(ctx, []carillon.Job{job(longest), job(longest)})
	_, out["run"] = s.GetRun(ctx, "", huge)
	_, out["cancel"] = s.CancelRun(ctx, huge[:63], huge)
	_, out["backfill"] = s.GetBackfill(ctx, "", huge)
	now := time.Now()
	_, out["backfill of nothing"] = s.StartBackfill(ctx, carillon.Key{Name: longest + "x"},
		carillon.BackfillSpec{From: now.Add(-time.Hour), To: now})
	_, out["page token"] = s.ListJobs(ctx, carillon.JobQuery{PageToken: huge})
	_, out["page token of namespaces"] = s.ListNamespaces(ctx, carillon.NamespaceQuery{PageToken: huge})
	_, out["label"] = s.ListJobs(ctx, carillon.JobQuery{Label: huge})
	_, out["prefix"] = s.ListJobs(ctx, carillon.JobQuery{Prefix: huge})
	_, out["namespace"] = s.GetNamespace(ctx, huge)
	_, out["concurrency_limits"] = s.PutNamespace(ctx,
		carillon.Namespace{Name: "a", ConcurrencyLimits: map[string]int{huge: 1}})
	_, out["hello"] = connected(ctx, w, carillon.Hello{Queues: []string{longest, longest}})
	_, out["hello, huge"] = connected(ctx, w, carillon.Hello{Queues: []string{huge}})
	if cluster, is := s.(carillon.Cluster); is {
		out["drain"] = cluster.DrainNode(ctx, huge)
	}
	return out
}

// connected opens a worker's session that is to be refused: at once, or with its first message.
func connected(ctx context.Context, w *rig, hello carillon.Hello) (carillon.Session, error) {
	session, err := w.another().Connect(ctx, hello)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	_, err = session.Receive(ctx)
	return session, err
}

// TestTextThatIsNotUTF8IsRefused is refused by the same field in the same process and over gRPC, and
// certainly has changed nothing.
func TestTextThatIsNotUTF8IsRefused(t *testing.T) {
	const bad = "caf\xe9"
	everywhere(t, func(w *rig) {
		for field, j := range map[string]carillon.Job{
			"name": {Name: bad}, "schedule": {Schedule: bad}, "time_zone": {Schedule: "@daily",
				TimeZone: bad}, "note": {Note: bad},
			"labels": {Labels: map[string]string{"a": bad}}, "metadata": {Metadata: map[string]string{bad: "a"}},
			"concurrency_key": {ConcurrencyKey: bad}, "target.worker.queue": {Target: carillon.WorkerQueue(bad)},
		} {
			j.Due = carillon.In(time.Hour)
			if j.Target.Worker == nil {
				j.Target = carillon.WorkerQueue(queue)
			}
			_, err := w.sched.PutJob(w.t.Context(), j)
			e, ok := errors.AsType[*carillon.Error](err)
			if !ok || e.Kind != carillon.InvalidArgument || e.Field != field || e.Unknown {
				w.t.Errorf("%s: %v", field, err)
			}
		}
		_, err := w.sched.GetJob(w.t.Context(), key(bad))
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.InvalidArgument ||
			e.Field != "name" {
			w.t.Errorf("get: %v", err)
		}
		_, err = w.sched.Connect(w.t.Context(), carillon.Hello{Queues: []string{bad}, WorkerID: "me"})
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.InvalidArgument ||
			!strings.HasPrefix(e.Field, "queues") {
			w.t.Errorf("connect: %v", err)
		}
	})
}
