package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/store"
)

// namespaces are those that the plan uses, in order.
func (p *Plan) namespaces() []string {
	seen := map[string]bool{}
	for i := range p.Ops {
		seen[p.Ops[i].Namespace] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// jobs are the names that the plan gives to jobs, in order.
func (p *Plan) jobs() []carillon.Key {
	seen := map[carillon.Key]bool{}
	for i := range p.Ops {
		o := &p.Ops[i]
		if o.Job != "" && o.Kind != checker.DeletePrefix && o.Kind != checker.List {
			seen[carillon.Key{Namespace: o.Namespace, Name: o.Job}] = true
		}
		for _, b := range o.Batch {
			seen[carillon.Key{Namespace: o.Namespace, Name: b.Job}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen),
		func(a, b carillon.Key) int { return store.Ref{Key: a}.Compare(store.Ref{Key: b}) })
}

// final reads what there is when everything has come to rest.
func (w *world) final(ctx context.Context) (checker.Final, error) {
	f := checker.Final{Whole: true}
	api := w.anyLife().scheduler()
	for _, ns := range w.plan.namespaces() {
		if err := finalJobs(ctx, api, ns, &f); err != nil {
			return f, err
		}
	}
	for _, k := range w.plan.jobs() {
		if err := finalRuns(ctx, api, k, &f); err != nil {
			return f, err
		}
	}
	if err := w.unfinished(ctx, &f); err != nil {
		return f, err
	}
	owners, err := w.disk.Leaser().Owners(ctx)
	if err != nil {
		return f, fmt.Errorf("sim: owners: %w", err)
	}
	for _, o := range owners {
		f.Owners = append(f.Owners, checker.Owner{Seen: "store", Partition: o.Partition, Node: o.Node,
			Epoch: o.Term.Epoch})
	}
	err = w.views(ctx, &f)
	return f, err
}

// unfinished counts the runs of each job that have had an attempt and have not ended, unless the job has
// changed since it was read.
func (w *world) unfinished(ctx context.Context, f *checker.Final) error {
	at := map[carillon.Key]*checker.FinalJob{}
	for i := range f.Jobs {
		at[carillon.Key{Namespace: f.Jobs[i].Namespace, Name: f.Jobs[i].Job}] = &f.Jobs[i]
	}
	for p := range w.plan.Partitions {
		sh, err := w.disk.Shard(p, store.Term{})
		if err != nil {
			return err
		}
		jobs, err := sh.List(ctx, store.ListQuery{Limit: 10_000})
		if err != nil {
			return err
		}
		for i := range jobs {
			n, err := unfinishedOf(ctx, sh, &jobs[i])
			if err != nil {
				return err
			}
			again, err := sh.Read(ctx, []store.Ref{jobs[i].Ref})
			if err != nil {
				return err
			}
			read, now := at[jobs[i].Key], &again[0].State
			if read != nil && read.UID == now.UID.String() && read.Counters == checker.Counters(now.Counters) &&
				now.Pending == jobs[i].State.Pending {
				read.Unfinished = &n
			}
		}
	}
	return nil
}

// unfinishedOf counts them in the store.
func unfinishedOf(ctx context.Context, sh store.Shard, job *store.Record) (n uint64, err error) {
	runs := []store.Record{*job}
	for seq, found := job.State.Triggers, uint32(0); found < job.State.Pending && seq > 0 &&
		job.State.Triggers-seq < 10_000; seq-- {
		r, err := sh.Read(ctx, []store.Ref{{Key: job.Key, Seq: seq}})
		if err != nil {
			return 0, err
		}
		if r[0].Exists {
			found++
			runs = append(runs, r[0])
		}
	}
	for i := range runs {
		if s := &runs[i].State.Run; s.Live && s.Attempt > 0 {
			n++
		}
	}
	return n, nil
}

// views adds who owns what as each node of a cluster sees it.
func (w *world) views(ctx context.Context, f *checker.Final) error {
	for _, n := range w.nodes {
		l := n.life()
		if l == nil || l.member == nil {
			continue
		}
		s, err := l.member.ClusterStatus(ctx)
		if err != nil {
			return fmt.Errorf("sim: the cluster as %s sees it: %w", n.name(), err)
		}
		for _, o := range s.Partitions {
			f.Owners = append(f.Owners, checker.Owner{Seen: n.name(), Partition: o.Partition,
				Node: o.Node, Epoch: o.Epoch})
		}
	}
	return nil
}

// anyLife is that of the first node that is there.
func (w *world) anyLife() *life {
	for _, n := range w.nodes {
		if l := n.life(); l != nil {
			return l
		}
	}
	return nil
}

func finalJobs(ctx context.Context, api Scheduler, namespace string, f *checker.Final) error {
	q := carillon.JobQuery{Namespace: namespace, PageSize: carillon.MaxBatch}
	for {
		page, err := api.ListJobs(ctx, q)
		if err != nil {
			return fmt.Errorf("sim: list jobs: %w", err)
		}
		for i := range page.Jobs {
			j := &page.Jobs[i]
			s := j.Status
			f.Jobs = append(f.Jobs, checker.FinalJob{
				Namespace: j.Namespace, Job: j.Name, UID: s.UID.String(), Generation: s.Generation, Paused: j.Paused,
				Payload: payloadOf(&j.Data), NextRun: s.NextRun, Counters: checker.Counters(s.Counters),
			})
			if s.Current != nil {
				f.Runs = append(f.Runs, finalRun(s.Current))
			}
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return nil
		}
	}
}

func finalRuns(ctx context.Context, api Scheduler, k carillon.Key, f *checker.Final) error {
	q := carillon.RunQuery{Namespace: k.Namespace, Job: k.Name, PageSize: carillon.MaxBatch}
	for {
		page, err := api.ListRuns(ctx, q)
		if err != nil {
			return fmt.Errorf("sim: list runs of %s: %w", k, err)
		}
		for i := range page.Runs {
			if page.Runs[i].Status.Finished() {
				f.Runs = append(f.Runs, finalRun(&page.Runs[i]))
			}
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return nil
		}
	}
}

func finalRun(r *carillon.Run) checker.FinalRun {
	uid := ""
	if id, err := store.ParseRunID(r.ID); err == nil {
		uid = id.UID.String()
	}
	return checker.FinalRun{UID: uid, RunID: r.ID, Namespace: r.Namespace, Job: r.Job,
		Status: r.Status.String(), Reason: r.Reason,
		Cause: r.Cause.String(), Scheduled: r.Scheduled, From: r.Skipped.From, Skipped: r.Skipped.Times,
		Attempt: r.Attempt, Finished: r.Finished, Backfill: r.Backfill, InDoubt: r.InDoubt}
}

// clear deletes every job, while there are workers: that nothing is parked for a queue any more is found out
// when it is served.
func (w *world) clear(ctx context.Context) error {
	api := w.anyLife().scheduler()
	for _, k := range w.plan.jobs() {
		if _, err := api.DeleteJob(ctx, k); err != nil && carillon.KindOf(err) != carillon.NotFound {
			return fmt.Errorf("sim: delete %s: %w", k, err)
		}
	}
	return nil
}

// slots are those that hubs hold for attempts when every job is deleted, and everybody whose attempt ended
// with that has been told.
func (w *world) slots() (left []string) {
	for _, n := range w.nodes {
		l := n.life()
		if l == nil {
			continue // it has left for good
		}
		for _, q := range l.hub.Queues() {
			if q.InFlight != 0 {
				left = append(left, fmt.Sprintf("slots of %s at %s: %+v", q.Queue, n.name(), q))
			}
		}
	}
	return left
}

// leftovers looks for records, index entries and memory that nothing accounts for when every job is deleted.
func (w *world) leftovers(ctx context.Context) (left []string, err error) {
	pause(actorFinal, 5*time.Second) // for deletes on their way
	for _, n := range w.nodes {
		l := n.life()
		if l == nil {
			continue // it has left for good
		}
		if st := l.engine.Stats(); st.Resident != 0 || st.Bytes != 0 || st.InFlight != 0 {
			left = append(left, fmt.Sprintf("in the memory of %s: %+v", n.name(), st))
		}
	}
	for p := range w.plan.Partitions {
		found, err := w.records(ctx, p)
		if err != nil {
			return nil, err
		}
		left = append(left, found...)
	}
	return left, nil
}

// records are those of a partition that are still there, by name or in an index.
func (w *world) records(ctx context.Context, p int) (left []string, err error) {
	sh, err := w.disk.Shard(p, store.Term{})
	if err != nil {
		return nil, err
	}
	records, err := sh.List(ctx, store.ListQuery{Limit: 100})
	if err != nil {
		return nil, err
	}
	for class := range uint8(4) {
		due, err := sh.Due(ctx, store.DueQuery{Priority: class, Until: 1 << 62, Limit: 100})
		if err != nil {
			return nil, err
		}
		records = append(records, due...)
	}
	for _, r := range records {
		left = append(left, fmt.Sprintf("partition %d: %s/%d %s", p, r.Key, r.Seq, r.State.Phase))
	}
	small, err := sh.MetaRecords(ctx, store.MetaQuery{Kind: store.KindParked, Limit: 100})
	for _, s := range small {
		left = append(left, fmt.Sprintf("partition %d: a note of parked runs of %q", p, s.Key))
	}
	return left, err
}
