package cluster

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
)

// named gives a job without a name one, as its partition depends on the name.
func (r *Router) named(job *carillon.Job) error {
	if job.Name != "" {
		return nil
	}
	id, err := ulid.New(ulid.Timestamp(r.n.cfg.Now()), rand.Reader)
	if err != nil {
		return fmt.Errorf("random bytes for a name: %w", err)
	}
	job.Name = id.String()
	return nil
}

// PutJob implements [carillon.Jobs].
func (r *Router) PutJob(ctx context.Context, job carillon.Job,
	opts ...carillon.PutOption) (carillon.PutResult, error) {
	o := carillon.PutOptions{}.With(opts...)
	o.IfAbsent = o.IfAbsent || job.Name == ""
	if err := r.named(&job); err != nil {
		return carillon.PutResult{}, err
	}
	return message.Send(ctx, r, r.ofJob(job.Key()), message.PutJob{Job: job, Options: o, SeenAt: r.n.cfg.Now()})
}

// PutJobs implements [carillon.Jobs]: the owner of the first job's partition coordinates the batch.
func (r *Router) PutJobs(ctx context.Context, jobs []carillon.Job) ([]carillon.PutResult, error) {
	if len(jobs) == 0 || len(jobs) > carillon.MaxBatch {
		return r.n.local.PutJobs(ctx, jobs)
	}
	jobs = append([]carillon.Job(nil), jobs...)
	for i := range jobs {
		if err := r.named(&jobs[i]); err != nil {
			return nil, err
		}
	}
	return message.Send(ctx, r, r.ofJob(jobs[0].Key()), message.PutJobs{Jobs: jobs, SeenAt: r.n.cfg.Now()})
}

// PatchJob implements [carillon.Jobs].
func (r *Router) PatchJob(ctx context.Context, key carillon.Key,
	patch carillon.Patch) (carillon.PutResult, error) {
	return message.Send(ctx, r, r.ofJob(key), message.PatchJob{Key: key, Patch: patch, SeenAt: r.n.cfg.Now()})
}

// SetPaused implements [carillon.Jobs].
func (r *Router) SetPaused(ctx context.Context, key carillon.Key,
	pause carillon.PauseOptions) (carillon.Job, error) {
	return route(ctx, r, r.ofJob(key), once, func(ctx context.Context, s Services) (carillon.Job, error) {
		return s.SetPaused(ctx, key, pause)
	})
}

// GetJob implements [carillon.Jobs].
func (r *Router) GetJob(ctx context.Context, key carillon.Key) (carillon.Job, error) {
	return byKey(ctx, r, key, read, Services.GetJob)
}

// ListTimes implements [carillon.Timetables].
func (r *Router) ListTimes(ctx context.Context, q carillon.TimesQuery) (carillon.Timetable, error) {
	return route(ctx, r, r.ofJob(q.Key), read,
		func(ctx context.Context, s Services) (carillon.Timetable, error) { return s.ListTimes(ctx, q) })
}

// ListJobs implements [carillon.Jobs]. Lists are read from the store, which any node can do.
func (r *Router) ListJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error) {
	return r.n.local.ListJobs(ctx, q)
}

// DeleteJob implements [carillon.Jobs].
func (r *Router) DeleteJob(ctx context.Context, key carillon.Key,
	opts ...carillon.DeleteOption) (carillon.DeleteResult, error) {
	return route(ctx, r, r.ofJob(key), once,
		func(ctx context.Context, s Services) (carillon.DeleteResult, error) {
			return s.DeleteJob(ctx, key, opts...)
		})
}

// DeleteJobs implements [carillon.Jobs]: the local engine asks the partitions, on whichever nodes they are.
func (r *Router) DeleteJobs(ctx context.Context, namespace, prefix string) (int, error) {
	return r.n.local.DeleteJobs(ctx, namespace, prefix)
}

// TriggerJob implements [carillon.Runs].
func (r *Router) TriggerJob(ctx context.Context, key carillon.Key,
	opts ...carillon.TriggerOption) (carillon.Run, error) {
	return route(ctx, r, r.ofJob(key), once, func(ctx context.Context, s Services) (carillon.Run, error) {
		return s.TriggerJob(ctx, key, opts...)
	})
}

// SkipRun implements [carillon.Runs].
func (r *Router) SkipRun(ctx context.Context, key carillon.Key) (carillon.SkipResult, error) {
	return byKey(ctx, r, key, once, Services.SkipRun)
}

// ListRuns implements [carillon.Runs]. It reads from the store.
func (r *Router) ListRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	return r.n.local.ListRuns(ctx, q)
}

// GetRun implements [carillon.Runs].
func (r *Router) GetRun(ctx context.Context, namespace, id string) (carillon.Run, error) {
	return byID(ctx, r, namespace, id, read, Services.GetRun)
}

// CancelRun implements [carillon.Runs].
func (r *Router) CancelRun(ctx context.Context, namespace, id string) (carillon.CancelResult, error) {
	return byID(ctx, r, namespace, id, once, Services.CancelRun)
}

// RedriveRun implements [carillon.Runs].
func (r *Router) RedriveRun(ctx context.Context, namespace, id string) (carillon.Run, error) {
	return byID(ctx, r, namespace, id, once, Services.RedriveRun)
}

// RedriveRuns implements [carillon.Runs]: the local engine asks the partitions, on whichever nodes they are.
func (r *Router) RedriveRuns(ctx context.Context, namespace, job string) (int, error) {
	return r.n.local.RedriveRuns(ctx, namespace, job)
}

// CompleteRun implements [carillon.Runs]. The owner of the partition checks whether the token is genuine.
func (r *Router) CompleteRun(ctx context.Context, namespace string, result carillon.Result) error {
	p, ok := message.PartitionOfToken(result.Token, r.n.parts)
	if !ok {
		return r.n.local.CompleteRun(ctx, namespace, result)
	}
	_, err := route(ctx, r, p, once, func(ctx context.Context, s Services) (struct{}, error) {
		return struct{}{}, s.CompleteRun(ctx, namespace, result)
	})
	return err
}

// StartBackfill implements [carillon.Backfills].
func (r *Router) StartBackfill(ctx context.Context, key carillon.Key,
	spec carillon.BackfillSpec) (carillon.Backfill, error) {
	return route(ctx, r, r.ofJob(key), once, func(ctx context.Context, s Services) (carillon.Backfill, error) {
		return s.StartBackfill(ctx, key, spec)
	})
}

// GetBackfill implements [carillon.Backfills].
func (r *Router) GetBackfill(ctx context.Context, namespace, id string) (carillon.Backfill, error) {
	return byID(ctx, r, namespace, id, again, Services.GetBackfill)
}

// ListBackfills implements [carillon.Backfills].
func (r *Router) ListBackfills(ctx context.Context, key carillon.Key) ([]carillon.Backfill, error) {
	return byKey(ctx, r, key, again, Services.ListBackfills)
}

// CancelBackfill implements [carillon.Backfills].
func (r *Router) CancelBackfill(ctx context.Context, namespace, id string) (carillon.Backfill, error) {
	return byID(ctx, r, namespace, id, again, Services.CancelBackfill)
}

// GetNamespace implements [carillon.Namespaces].
func (r *Router) GetNamespace(ctx context.Context, name string) (carillon.Namespace, error) {
	return route(ctx, r, r.ofNamespace(name), again,
		func(ctx context.Context, s Services) (carillon.Namespace, error) {
			return s.GetNamespace(ctx, name)
		})
}

// ListNamespaces implements [carillon.Namespaces]. It reads from the store.
func (r *Router) ListNamespaces(ctx context.Context,
	q carillon.NamespaceQuery) (carillon.NamespacePage, error) {
	return r.n.local.ListNamespaces(ctx, q)
}

// PutNamespace implements [carillon.Namespaces].
func (r *Router) PutNamespace(ctx context.Context, ns carillon.Namespace) (carillon.Namespace, error) {
	return route(ctx, r, r.ofNamespace(ns.Name), once,
		func(ctx context.Context, s Services) (carillon.Namespace, error) {
			return s.PutNamespace(ctx, ns)
		})
}

// ofNamespace returns the partition that keeps a namespace's settings: that of its empty job name.
func (r *Router) ofNamespace(name string) int { return r.ofJob(carillon.Key{Namespace: name}) }

// PutCalendar implements [carillon.Calendars].
func (r *Router) PutCalendar(ctx context.Context, c carillon.Calendar) (carillon.Calendar, error) {
	return route(ctx, r, r.ofNamespace(c.Namespace), once,
		func(ctx context.Context, s Services) (carillon.Calendar, error) {
			return s.PutCalendar(ctx, c)
		})
}

// GetCalendar implements [carillon.Calendars].
func (r *Router) GetCalendar(ctx context.Context, namespace, name string) (carillon.Calendar, error) {
	return route(ctx, r, r.ofNamespace(namespace), again,
		func(ctx context.Context, s Services) (carillon.Calendar, error) {
			return s.GetCalendar(ctx, namespace, name)
		})
}

// ListCalendars implements [carillon.Calendars].
func (r *Router) ListCalendars(ctx context.Context, q carillon.CalendarQuery) (carillon.CalendarPage, error) {
	return route(ctx, r, r.ofNamespace(q.Namespace), again,
		func(ctx context.Context, s Services) (carillon.CalendarPage, error) {
			return s.ListCalendars(ctx, q)
		})
}

// DeleteCalendar implements [carillon.Calendars].
func (r *Router) DeleteCalendar(ctx context.Context, namespace, name string,
	opts ...carillon.DeleteOption) error {
	_, err := route(ctx, r, r.ofNamespace(namespace), once,
		func(ctx context.Context, s Services) (struct{}, error) {
			return struct{}{}, s.DeleteCalendar(ctx, namespace, name, opts...)
		})
	return err
}
