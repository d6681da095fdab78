package golden_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/embedded"
	"github.com/carillonhq/carillon/server/internal/doctor"
	"github.com/carillonhq/carillon/server/internal/keyset"
	"github.com/carillonhq/carillon/server/internal/testing/golden"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
	_ "github.com/carillonhq/carillon/server/store/pebble"
	"github.com/carillonhq/carillon/server/store/sealed"
)

// newest is the newest format of which there is a store. When the format is raised, one of the format before
// is needed at once, and one of the new format before it is released.
const newest = 6

// patience bounds what no test should need.
const patience = time.Minute

// healthy examines a store.
func healthy(t *testing.T, url string) {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	o := doctor.Options{Most: 100}
	if file := golden.Keys(url); file != "" {
		keys, err := keyset.File{Path: file}.Read()
		if err != nil {
			t.Fatal(err)
		}
		o.Keys = sealed.New(keyset.NewSet(keys)).Keeping()
	}
	r, err := doctor.Look(t.Context(), s, o)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if len(r.Kinds) > 0 || r.Jobs < 8 || r.Runs < 7 || r.Sealed > 0 {
		t.Errorf("%+v", r)
	}
}

// TestStores opens the store of each format as a node does.
func TestStores(t *testing.T) {
	if store.Format() > newest+1 {
		t.Errorf("there is no store of format %d", store.Format()-1)
	}
	for format := 1; format <= newest; format++ {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			t.Parallel()
			url, err := golden.Store(format, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if format < store.Format() {
				_, err := store.Open(t.Context(), url, store.Options{Existing: true, AsIs: true})
				if !errors.Is(err, store.ErrOutdated) {
					t.Errorf("it was to be left as it is: %v", err)
				}
			}
			serve(t, url, format)
		})
	}
}

// TestEncryptedStores: the same of stores that are encrypted, which are not opened without their keys.
func TestEncryptedStores(t *testing.T) {
	for format := 6; format <= newest; format++ {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			t.Parallel()
			url, err := golden.Encrypted(format, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			s, err := embedded.Open(t.Context(), url, embedded.Options{})
			if err == nil {
				t.Errorf("it was opened without its keys: %v", s.Close(t.Context()))
			}
			serve(t, url, format)
		})
	}
}

// TestBackup restores the backup of each version.
func TestBackup(t *testing.T) {
	b, err := golden.Backup(1)
	if err != nil {
		t.Fatal(err)
	}
	url := "pebble:" + t.TempDir() + "/restored"
	open := func(ctx context.Context, o store.Options) (store.Store, error) { return store.Open(ctx, url, o) }
	if _, err := transfer.Restore(t.Context(), bytes.NewReader(b), open, nil); err != nil {
		t.Fatal(err)
	}
	serve(t, url, 4)
}

// serve has a node serve a store, and looks for what must be there. Before and after nothing is wrong with it.
func serve(t *testing.T, url string, format int) {
	t.Helper()
	healthy(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := golden.Serve(ctx, url, golden.DueOf(format), func(s *embedded.Scheduler) error {
		look{t, s}.all(format)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	healthy(t, url)
}

// look looks at what a scheduler has.
type look struct {
	*testing.T
	s *embedded.Scheduler
}

func (l look) job(namespace, name string) carillon.Job {
	l.Helper()
	j, err := l.s.GetJob(l.Context(), carillon.Key{Namespace: namespace, Name: name})
	if err != nil {
		l.Fatal(err)
	}
	return j
}

func (l look) all(format int) {
	l.Helper()
	l.jobs()
	l.runs()
	n, err := l.s.GetNamespace(l.Context(), "billing")
	if err != nil || !n.Strict || n.ConcurrencyLimits["ledger"] != 2 {
		l.Errorf("%+v, %v", n, err)
	}
	if format >= 3 {
		c, err := l.s.GetCalendar(l.Context(), "default", "holidays")
		if err != nil || !slices.Equal(c.Dates, []string{"12-25/12-26"}) || c.TimeZone != "Europe/Berlin" {
			l.Errorf("%+v, %v", c, err)
		}
		if j := l.job("default", "workdays"); !slices.Equal(j.Calendars.Except, []string{"holidays"}) {
			l.Errorf("%+v", j)
		}
		queues, err := l.s.Queues().ListQueues(l.Context(), carillon.QueueQuery{})
		if err != nil || !slices.ContainsFunc(queues.Queues, func(q carillon.Queue) bool {
			return q.Name == "mail" && q.Pause.Note == "moves house"
		}) {
			l.Errorf("%+v, %v", queues, err)
		}
	}
	if format >= 6 {
		l.limits()
	}
	if format >= 4 {
		n, err := l.s.GetNamespace(l.Context(), "default")
		if err != nil || len(n.Webhooks) != 1 || n.Webhooks[0].Name != "ops" {
			l.Errorf("%+v, %v", n, err)
		}
	}
}

// limits looks at quotas, rates, and who has done what.
func (l look) limits() {
	l.Helper()
	billing, err := l.s.GetNamespace(l.Context(), "billing")
	if q := billing.Quotas; err != nil || q.Jobs != 100 || q.PayloadBytes != 1_000_000 || q.Puts.Count != 500 ||
		q.Runs.Period != time.Hour || q.ConcurrentRuns != 50 || billing.Used == nil || billing.Used.Jobs != 2 {
		l.Errorf("%+v, %v", billing, err)
	}
	n, err := l.s.GetNamespace(l.Context(), "default")
	if r := n.RateLimits["mail"]; err != nil || r.Count != 5 || r.Period != 24*time.Hour || r.Burst != 5 {
		l.Errorf("%+v, %v", n, err)
	}
	for i := range 3 {
		if r := l.ended(fmt.Sprint("rated-", i+1)); len(r) != 1 || r[0].Status != carillon.RunSucceeded {
			l.Errorf("%+v", r)
		}
	}
}

func (l look) jobs() {
	l.Helper()
	once := l.job("default", "once")
	if at := time.Date(2099, 6, 1, 12, 0, 0, 0, time.UTC); !once.Status.NextRun.Equal(at) ||
		string(once.Data.Bytes) != `{"n":1}` || once.Labels["team"] != "core" {
		l.Errorf("%+v", once)
	}
	cron := l.job("default", "cron")
	if berlin := cron.Status.NextRun.In(cron.Location()); berlin.Hour() != 2 || berlin.Minute() != 30 ||
		cron.TimeZone != "Europe/Berlin" || !cron.Status.NextRun.After(time.Now()) {
		l.Errorf("%+v", cron)
	}
	if j := l.job("default", "interval"); j.Schedule != "@every 24h" || j.Jitter != 5*time.Minute || j.Status.NextRun.IsZero() {
		l.Errorf("%+v", j)
	}
	if j := l.job("default", "iso"); !j.Status.NextRun.Equal(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)) {
		l.Errorf("%+v", j)
	}
	if j := l.job("default", "paused"); !j.Paused || j.Note != "until the audit is over" || j.Status.Phase != carillon.PhasePaused {
		l.Errorf("%+v", j)
	}
	if j := l.job("default", "waits"); !slices.Equal(j.DependsOn, []string{"cron"}) || j.Priority != carillon.PriorityHigh {
		l.Errorf("%+v", j)
	}
	if j := l.job("billing", "ledger"); j.ConcurrencyKey != "ledger" {
		l.Errorf("%+v", j)
	}
	if j := l.job("billing", "invoice"); len(j.Data.Bytes) != 3002 {
		l.Errorf("%d bytes", len(j.Data.Bytes))
	}
}

// ended returns the finished runs of a job, newest first.
func (l look) ended(job string) []carillon.Run {
	l.Helper()
	page, err := l.s.ListRuns(l.Context(), carillon.RunQuery{Namespace: "default", Job: job})
	if err != nil {
		l.Fatal(err)
	}
	return page.Runs
}

func (l look) runs() {
	l.Helper()
	if r := l.ended("works"); len(r) != 1 || r[0].Status != carillon.RunSucceeded || string(r[0].Response) != `{"done":true}` {
		l.Errorf("%+v", r)
	}
	if r := l.ended("retries"); len(r) != 1 || r[0].Status != carillon.RunFailed || len(r[0].Errors) != 3 {
		l.Errorf("%+v", r)
	}
	if r := l.ended("dies"); len(r) != 1 || r[0].Status != carillon.RunDead || len(r[0].Errors) != 1 {
		l.Errorf("%+v", r)
	}
	if r := l.ended("often"); len(r) != 4 {
		l.Errorf("%+v", r)
	}
}
