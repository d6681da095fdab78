package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store/codec"
)

// If a job is valid but will not do what its author expects, the answer to the put says so in a warning. The
// owner of the job's partition writes warnings from what it knows: it asks no other node, and reads the store
// only for jobs that wait for others and before it says that a key has no limit. It does not guess what it
// cannot know, such as what a name will resolve to. Each warning begins with a field and a colon.

// lateBy is how far in the past a job must be due for a warning: clocks differ, and calls take time.
const lateBy = time.Minute

// advise adds warnings to the answer to a put.
func (j *jobs) advise(ctx context.Context, put *carillon.PutResult) {
	if !put.Changed {
		return
	}
	job := &put.Job
	if j.cfg.Advise != nil {
		if w := j.cfg.Advise(delivery.QueueOf(job.Namespace, job.Target)); w != "" {
			put.Warnings = append(put.Warnings, w)
		}
	}
	if job.ConcurrencyKey != "" {
		if !j.limited(ctx, delivery.Limit{Namespace: job.Namespace, Key: job.ConcurrencyKey}) {
			put.Warnings = append(put.Warnings,
				fmt.Sprintf("concurrency_key: namespace %q has no limit for %.64q, so nothing is limited",
					job.Namespace, job.ConcurrencyKey))
		}
	}
	if w := cmp.Or(dueInThePast(job), leftOut(job)); w != "" {
		put.Warnings = append(put.Warnings, w)
	}
}

// limited reports whether a key has a limit, or may have one. On a node that does not own the settings they
// may be slightly old, and the limit may have been set just before the put.
func (j *jobs) limited(ctx context.Context, l delivery.Limit) bool {
	if j.settings.limitsKey(l) {
		return true
	}
	p := j.partitions.ofNamespace(l.Namespace)
	if !j.partitions.remote(p) {
		return false
	}
	if err := p.settings.followShared(ctx); err != nil {
		return true
	}
	return j.settings.limitsKey(l)
}

// dueInThePast returns a warning for a one-shot whose due time was long before it was put.
func dueInThePast(j *carillon.Job) string {
	st := j.Status
	if j.Recurring() || st == nil || st.NextRun.IsZero() || st.Current != nil {
		return ""
	}
	if by := st.Updated.Sub(st.NextRun); by > lateBy {
		return fmt.Sprintf("due_time: it was %s ago, so the job runs at once", schedule.Brief(by.Round(time.Second)))
	}
	return ""
}

// leftOut returns a warning for a job of which calendars leave no time over.
func leftOut(j *carillon.Job) string {
	st, rules := j.Status, &j.Calendars
	if len(rules.Except)+len(rules.Only) == 0 || j.Paused || st == nil || !st.NextRun.IsZero() ||
		st.Current != nil {
		return ""
	}
	field := "except"
	if len(rules.Only) > 0 {
		field = "only"
	}
	return field + ": the calendars, as they are now, leave no time of the schedule over, so the job does not run until they change"
}

const (
	// cycleDepth is how many levels of dependencies are followed, and cycleJobs how many jobs are looked at.
	cycleDepth = 16
	cycleJobs  = 256
)

// cycle returns a warning if a job waits, through others, for itself. together holds the jobs that are put
// with it, as they will be. It looks at a few jobs only and skips what cannot be read, since the put does not
// depend on it.
func (d *dependencies) cycle(ctx context.Context, j *carillon.Job,
	together map[carillon.Key]*carillon.Job) string {
	from := map[string]string{} // for each name, the job that waits for it
	level := []*carillon.Job{j}
	for range cycleDepth {
		var next []string
		for _, waits := range level {
			for _, name := range waits.DependsOn {
				if name == j.Name {
					return "depends_on: " + cycleText(from, waits.Name, name)
				}
				if _, seen := from[name]; !seen && len(from) < cycleJobs {
					from[name] = waits.Name
					next = append(next, name)
				}
			}
		}
		if len(next) == 0 {
			return ""
		}
		level = d.jobsNamed(ctx, j.Namespace, next, together)
	}
	return ""
}

// cycleText describes the cycle.
func cycleText(from map[string]string, last, first string) string {
	path := []string{first}
	for name := last; name != first && name != ""; name = from[name] {
		path = append(path, name)
	}
	path = append(path, first)
	slices.Reverse(path)
	for i := range path {
		path[i] = fmt.Sprintf("%.64q", path[i])
	}
	if n := len(path); n > 8 {
		path = slices.Concat(path[:4], []string{"…"}, path[n-3:])
	}
	return "the jobs wait for each other (" + strings.Join(path,
		" after ") + "), so none of them runs unless one is triggered"
}

// jobsNamed returns those of the named jobs that exist: as they are being put, or as the store has them.
func (d *dependencies) jobsNamed(
	ctx context.Context, namespace string, names []string, together map[carillon.Key]*carillon.Job,
) (out []*carillon.Job) {
	var stored []string
	for _, name := range names {
		if j := together[carillon.Key{Namespace: namespace, Name: name}]; j != nil {
			out = append(out, j)
		} else {
			stored = append(stored, name)
		}
	}
	records, _ := d.partitions.storedJobs(ctx, namespace, stored) // what cannot be read is left out
	for i := range records {
		if !records[i].Exists {
			continue
		}
		if j, err := codec.DecodeSpec(records[i].Spec, records[i].Key); err == nil && len(j.DependsOn) > 0 {
			out = append(out, &j)
		}
	}
	return out
}
