package server_test

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// TestAnEmptyNamespaceIsTheDefaultOne: every call does the same with an empty namespace as with "default", in
// the same process and over gRPC.
func TestAnEmptyNamespaceIsTheDefaultOne(t *testing.T) {
	everywhere(t, func(w *rig) {
		said, meant := callAll(w, "", "empty/"), callAll(w, carillon.DefaultNamespace, "named/")
		for m := range reflect.TypeFor[carillon.Scheduler]().Methods() {
			want, called := meant[m.Name]
			if !called {
				w.t.Errorf("the test does not call %s", m.Name)
			} else if got := said[m.Name]; kindOf(got) != kindOf(want) {
				w.t.Errorf("%s: %v; with the namespace given %v", m.Name, got, want)
			}
		}
	})
}

// kindOf is the kind of an error; the zero value if there is none.
func kindOf(err error) carillon.Kind {
	if e, ok := errors.AsType[*carillon.Error](err); ok {
		return e.Kind
	}
	return 0
}

// callAll calls everything that a scheduler does, with jobs whose names begin with the prefix; it returns the
// errors by method.
func callAll(w *rig, namespace, prefix string) map[string]error {
	ctx, s, errs := w.t.Context(), w.sched, map[string]error{}
	note := func(method string, err error) { errs[method] = cmp.Or(errs[method], err) }
	key := carillon.Key{Namespace: namespace, Name: prefix + "job"}
	job := carillon.Job{Namespace: namespace, Name: key.Name, Schedule: "@every 1h",
		Target: carillon.WorkerQueue(prefix)}

	put, err := s.PutJob(ctx, job)
	note("PutJob", err)
	job.Name = prefix + "other"
	_, err = s.PutJobs(ctx, []carillon.Job{job})
	note("PutJobs", err)
	_, err = s.PatchJob(ctx, key, carillon.Patch{Fields: []string{"note"}, Job: carillon.Job{Note: "n"}})
	note("PatchJob", err)
	_, err = s.SetPaused(ctx, key, carillon.PauseOptions{})
	note("SetPaused", err)
	_, err = s.GetJob(ctx, key)
	note("GetJob", err)
	_, err = s.ListJobs(ctx, carillon.JobQuery{Namespace: namespace})
	note("ListJobs", err)
	_, err = s.SkipRun(ctx, key)
	note("SkipRun", err)
	if put.Job.Namespace != carillon.DefaultNamespace {
		w.t.Errorf("%q was put into namespace %q", namespace, put.Job.Namespace)
	}
	callRuns(ctx, w, key, note)
	callBackfills(ctx, s, key, note)
	callCalendars(ctx, s, namespace, prefix, note)
	_, err = s.PutPayload(ctx, namespace, strings.NewReader("x"))
	note("PutPayload", err)
	_, err = s.GetPayload(ctx, namespace, carillon.PayloadRef{Day: 1, Size: 1})
	note("GetPayload", err)
	_, err = s.CollectPayloads(ctx)
	note("CollectPayloads", err)

	n, err := s.GetNamespace(ctx, namespace)
	note("GetNamespace", err)
	n.Name = namespace
	_, err = s.PutNamespace(ctx, n)
	note("PutNamespace", err)
	told := errors.New("told")
	err = s.Watch(ctx, carillon.WatchQuery{Namespace: namespace}, func(carillon.EventBatch) error { return told })
	if errors.Is(err, told) {
		err = nil
	}
	note("Watch", err)
	page, err := s.ListNamespaces(ctx, carillon.NamespaceQuery{})
	note("ListNamespaces", err)
	if len(page.Namespaces) == 0 || page.Namespaces[0].Name != carillon.DefaultNamespace {
		w.t.Errorf("the namespaces of jobs of namespace %q are %+v", namespace, page)
	}
	_, err = s.DeleteJob(ctx, key)
	note("DeleteJob", err)
	deleted, err := s.DeleteJobs(ctx, namespace, prefix)
	note("DeleteJobs", err)
	if err == nil && deleted != 1 {
		w.t.Errorf("of namespace %q %d jobs were deleted, not 1", namespace, deleted)
	}
	return errs
}

// callCalendars calls what a scheduler does with calendars.
func callCalendars(ctx context.Context, s carillon.Scheduler, namespace, prefix string,
	note func(string, error)) {
	name := strings.Trim(prefix, "/")
	_, err := s.PutCalendar(ctx, carillon.Calendar{Namespace: namespace, Name: name})
	note("PutCalendar", err)
	_, err = s.GetCalendar(ctx, namespace, name)
	note("GetCalendar", err)
	_, err = s.ListCalendars(ctx, carillon.CalendarQuery{Namespace: namespace})
	note("ListCalendars", err)
	note("DeleteCalendar", s.DeleteCalendar(ctx, namespace, name))
}

// callRuns calls what a scheduler does with runs: one is cancelled, and one is dead and redriven.
func callRuns(ctx context.Context, w *rig, key carillon.Key, note func(string, error)) {
	s := w.sched
	cancelled, err := s.TriggerJob(ctx, key)
	note("TriggerJob", err)
	_, err = s.CancelRun(ctx, key.Namespace, cancelled.ID)
	note("CancelRun", err)
	_, err = s.GetRun(ctx, key.Namespace, cancelled.ID)
	note("GetRun", err)
	_, err = s.RedriveRun(ctx, key.Namespace, cancelled.ID) // which is refused: it is not dead
	note("RedriveRun", err)
	_, err = s.RedriveRuns(ctx, key.Namespace, key.Name)
	note("RedriveRuns", err)
	_, err = s.RedriveRuns(ctx, key.Namespace, "")
	note("RedriveRuns", err)
	_, err = s.ListRuns(ctx, carillon.RunQuery{Namespace: key.Namespace, Job: key.Name})
	note("ListRuns", err)
	runs := carillon.RunQuery{Namespace: key.Namespace, Job: key.Name}
	_, err = s.BulkRuns(ctx, carillon.BulkRuns{Query: runs, Action: carillon.RunCancel, DryRun: true})
	note("BulkRuns", err)
	jobs := carillon.JobQuery{Namespace: key.Namespace, Prefix: key.Name}
	_, err = s.BulkJobs(ctx, carillon.BulkJobs{Query: jobs, Action: carillon.JobResume, DryRun: true})
	note("BulkJobs", err)

	queue := key.Name[:len(key.Name)-len("job")]
	session, err := w.another().Connect(ctx,
		carillon.Hello{Namespace: key.Namespace, Queues: []string{queue}, WorkerID: "me"})
	note("Connect", err)
	if err != nil {
		return
	}
	r := raw{session, w.t}
	defer r.close()
	r.send(carillon.WorkRequest{Credits: []carillon.Credit{{Queue: queue, N: 1}}})
	_, err = s.TriggerJob(ctx, carillon.Key{Namespace: carillon.DefaultNamespace, Name: key.Name})
	note("TriggerJob", err)
	token := r.run().Token
	note("CompleteRun", s.CompleteRun(ctx, key.Namespace,
		carillon.Result{Token: token, Outcome: carillon.OutcomeSuccess}))
}

// callBackfills calls what a scheduler does with backfills. Where one could not be started, the calls about
// it have no id.
func callBackfills(ctx context.Context, s carillon.Scheduler, key carillon.Key, note func(string, error)) {
	now := time.Now()
	b, err := s.StartBackfill(ctx, key, carillon.BackfillSpec{From: now.Add(-2 * time.Hour), To: now})
	note("StartBackfill", err)
	_, err = s.GetBackfill(ctx, key.Namespace, b.ID)
	note("GetBackfill", err)
	_, err = s.ListBackfills(ctx, key)
	note("ListBackfills", err)
	_, err = s.ListTimes(ctx, carillon.TimesQuery{Key: key})
	note("ListTimes", err)
	_, err = s.CancelBackfill(ctx, key.Namespace, b.ID)
	note("CancelBackfill", err)
}
