package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// listRig is a store of made-up records, and what a list of runs should find in it.
type listRig struct {
	t       *testing.T
	rng     *rand.Rand
	shards  []store.Shard
	list    *runs
	records map[store.Ref]*store.Record // with the spec that counts, be it the job's
	history []store.RunRecord
}

const listedNamespace = "ns"

var listedQueues = []carillon.Target{carillon.WorkerQueue("mail"), carillon.WorkerQueue("web"),
	{HTTP: &carillon.HTTPTarget{URL: "https://mail/run"}}}

// newListRig fills a store at random: times come from a few values, so that many are equal.
func newListRig(t *testing.T, seed uint64, jobs int) *listRig {
	t.Helper()
	r := &listRig{t: t, rng: rand.New(rand.NewPCG(seed, 2)), records: map[store.Ref]*store.Record{}}
	batches := make([]*store.Batch, 1+r.rng.IntN(5))
	for p := range batches {
		batches[p] = &store.Batch{}
	}
	for i := range jobs {
		j := carillon.Job{Namespace: []string{listedNamespace, listedNamespace, "other"}[r.rng.IntN(3)],
			Name: fmt.Sprintf("%c/%03d", 'a'+rune(r.rng.IntN(2)), i), Schedule: "@hourly",
			Target: listedQueues[r.rng.IntN(3)], Data: carillon.Bytes(make([]byte, r.rng.IntN(2)*2000), "")}
		if r.rng.IntN(2) == 0 {
			j.Labels = map[string]string{"team": []string{"x", "y"}[r.rng.IntN(2)]}
		}
		p := store.PartitionOf(j.Key(), len(batches))
		b := batches[p]
		job := recordOf(j, r.state(j.Key(), 0))
		r.add(b, job, job.Spec)
		for seq := range uint64(r.rng.IntN(3)) {
			pending := store.Record{Ref: store.Ref{Key: j.Key(), Seq: seq + 1}, State: r.state(j.Key(), seq+1)}
			r.add(b, pending, job.Spec)
		}
		for n := range int64(r.rng.IntN(4)) {
			b.Runs = append(b.Runs, r.finished(&j, p, 100+n))
		}
	}
	s, shards := written(t, batches...)
	r.shards = shards
	ps := &partitions{store: s, macKey: []byte("key"), shards: shards}
	for p := range shards {
		ps.parts = append(ps.parts, &partitionRunner{number: p})
	}
	r.list = &runs{partitions: ps}
	for _, b := range batches {
		r.history = append(r.history, b.Runs...)
	}
	return r
}

func (r *listRig) add(b *store.Batch, rec store.Record, spec []byte) {
	b.Puts = append(b.Puts, rec)
	rec.Spec, rec.Exists = spec, true
	r.records[rec.Ref] = &rec
}

// state is that of a job, or of a pending run if seq is not 0.
func (r *listRig) state(k carillon.Key, seq uint64) store.State {
	phases := []carillon.Phase{carillon.PhaseScheduled, carillon.PhasePaused, carillon.PhaseWaiting,
		carillon.PhaseReady, carillon.PhaseStaged, carillon.PhaseRunning, carillon.PhaseRetrying}
	if seq > 0 {
		phases = phases[3:]
	}
	s := store.State{UID: store.NewUID(k, [8]byte{byte(seq)}), Priority: uint8(r.rng.IntN(4)), Next: 1 + r.rng.Int64N(20)}
	if seq > 0 {
		s.Next = 0
	}
	r.pass(&s, phases[r.rng.IntN(len(phases))], seq)
	return s
}

// pass moves a state to a phase.
func (r *listRig) pass(s *store.State, phase carillon.Phase, seq uint64) {
	s.Phase, s.Run, s.Queue = phase, store.RunState{}, ""
	s.Paused = phase == carillon.PhasePaused
	switch phase {
	case carillon.PhaseScheduled:
		s.Due = s.Next
		return
	case carillon.PhasePaused, carillon.PhaseWaiting:
		s.Due = 0
		return
	case carillon.PhaseStaged:
		s.Queue = "some queue"
	}
	s.Run = store.RunState{Live: true, Scheduled: 1 + r.rng.Int64N(20), Seq: seq, Cause: carillon.CauseTrigger}
	s.Run.Due = s.Run.Scheduled
	s.Due = s.Run.Due
	if phase == carillon.PhaseRetrying {
		s.Run.Attempt = 1
		s.Run.Errors = []carillon.AttemptError{{Message: []string{"no route", "no money"}[r.rng.IntN(2)]}}
	}
}

func (r *listRig) finished(j *carillon.Job, p int, scheduled int64) store.RunRecord {
	statuses := []carillon.RunStatus{carillon.RunSucceeded, carillon.RunFailed, carillon.RunDead,
		carillon.RunCancelled, carillon.RunSkipped}
	rec := store.RunRecord{Key: j.Key(), Status: statuses[r.rng.IntN(5)], Finished: 1 + r.rng.Int64N(20),
		Expires: 1 << 60, Queue: delivery.QueueOf(j.Namespace, j.Target).String(), Labels: j.Labels,
		ID: store.RunID{Partition: uint16(p), UID: store.NewUID(j.Key(), [8]byte{}), Scheduled: scheduled}}
	if rec.Status == carillon.RunDead {
		rec.Errors = []carillon.AttemptError{{Message: "no money"}, {Message: "no route"}}
	}
	return rec
}

// row is what is compared of a run.
func row(r *carillon.Run) string {
	return fmt.Sprintf("%s %s %s due %d ended %d in %s", r.Job, r.ID, r.Status, r.Due.UnixNano(),
		max(0, r.Finished.UnixNano()), r.Queue)
}

// model lists what the query should find: by looking at everything.
func (r *listRig) model(q carillon.RunQuery) (rows []string) {
	var byTime, byName, open []carillon.Run
	asked := func(s carillon.RunStatus) bool { return slices.Contains(q.Statuses, s) }
	order := map[string]int64{}
	for _, ref := range slices.SortedFunc(mapKeys(r.records), store.Ref.Compare) {
		rec := r.records[ref]
		p := store.PartitionOf(ref.Key, len(r.shards))
		job, err := codec.DecodeSpec(rec.Spec, ref.Key)
		if err != nil {
			r.t.Fatal(err)
		}
		keep := func(list *[]carillon.Run, run carillon.Run) {
			run.Queue = delivery.QueueOf("", job.Target).Address
			if passes(q, &run, job.Target.Kind(), job.Labels, run.Due) {
				*list = append(*list, run)
				order[run.ID] = rec.State.Due
			}
		}
		run, live := partition.UnfinishedRun(ref.Key, &rec.State, p)
		next, coming := partition.NextRun(ref.Key, &rec.State, p)
		if coming && asked(carillon.RunScheduled) {
			if rec.State.Phase == carillon.PhaseScheduled && q.Job == "" {
				keep(&byTime, next)
			} else {
				keep(&byName, next)
			}
		}
		switch {
		case !live || len(q.Statuses) > 0 && !asked(run.Status):
		case run.Status == carillon.RunScheduled && asked(carillon.RunScheduled) && q.Job == "":
			keep(&byTime, run)
		default:
			keep(&open, run)
		}
	}
	slices.SortStableFunc(byTime, func(a, b carillon.Run) int { return int(order[a.ID] - order[b.ID]) })
	var ended []store.RunRecord
	for _, rec := range r.history {
		run := partition.RunOf(&rec)
		if (len(q.Statuses) == 0 || asked(run.Status)) &&
			passes(q, &run, delivery.ParseQueue(rec.Queue).Kind, rec.Labels, run.Finished) {
			ended = append(ended, rec)
		}
	}
	slices.SortFunc(ended, func(a, b store.RunRecord) int {
		if q.Job != "" {
			return int(b.ID.Scheduled - a.ID.Scheduled)
		}
		return newestFirst(&a, &b)
	})
	for _, run := range slices.Concat(byTime, byName, open) {
		rows = append(rows, row(&run))
	}
	for i := range ended {
		run := partition.RunOf(&ended[i])
		rows = append(rows, row(&run))
	}
	return rows
}

func mapKeys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// passes is the filter of the model.
func passes(q carillon.RunQuery, r *carillon.Run, kind string, labels map[string]string, at time.Time) bool {
	key, value, exact := strings.Cut(q.Label, "=")
	got, has := labels[key]
	return r.Namespace == listedNamespace && (q.Job == "" || r.Job == q.Job) && strings.HasPrefix(r.Job, q.Prefix) &&
		(q.Queue == "" || r.Queue == q.Queue) && (q.Kind == "" || kind == q.Kind) &&
		(key == "" || has && (!exact || got == value)) &&
		(q.Error == "" || len(r.Errors) > 0 && strings.Contains(r.Errors[len(r.Errors)-1].Message, q.Error)) &&
		!at.Before(q.From) && (q.Until.IsZero() || at.Before(q.Until))
}

// pages reads all pages of a list; between is called after each.
func (r *listRig) pages(q carillon.RunQuery, between func()) (rows []string) {
	r.t.Helper()
	for pages := 0; pages == 0 || q.PageToken != ""; pages++ {
		page, err := r.list.ListRuns(r.t.Context(), q)
		if err != nil || len(page.Runs) > q.PageSize || pages > 10_000 {
			r.t.Fatalf("page %d: %d of %d runs, %v", pages, len(page.Runs), q.PageSize, err)
		}
		for i := range page.Runs {
			rows = append(rows, row(&page.Runs[i]))
		}
		q.PageToken = page.NextPageToken
		between()
	}
	return rows
}

func (r *listRig) query() carillon.RunQuery {
	q := carillon.RunQuery{Namespace: listedNamespace, PageSize: 1 + r.rng.IntN(30)}
	one := func(in int) bool { return r.rng.IntN(in) == 0 }
	for s := carillon.RunScheduled; s <= carillon.RunSkipped; s++ {
		if one(4) {
			q.Statuses = append(q.Statuses, s, s)
		}
	}
	switch r.rng.IntN(4) {
	case 0:
		for ref := range r.records {
			if ref.Namespace == listedNamespace {
				q.Job = ref.Name
			}
		}
	case 1:
		q.Prefix = "b/"
	}
	if one(4) {
		q.Queue = "mail"
	}
	if one(6) {
		q.Kind = "http"
	}
	if one(4) {
		q.Label = []string{"team", "team=x"}[r.rng.IntN(2)]
	}
	if one(6) {
		q.Error = "route"
	}
	if one(4) {
		q.From = time.Unix(0, 3+r.rng.Int64N(10))
	}
	if one(4) {
		q.Until = time.Unix(0, 14+r.rng.Int64N(10))
	}
	return q
}

// TestAListOfRunsHasEachOnceInOrder: whatever the filters, the pages and the partitions, and however many are
// due or have finished at one instant.
func TestAListOfRunsHasEachOnceInOrder(t *testing.T) {
	found := 0
	for seed := range uint64(40) {
		r := newListRig(t, seed, 40)
		for range 10 {
			q := r.query()
			got, want := r.pages(q, func() {}), r.model(q)
			found += len(want)
			// The store orders what finished at one instant in one partition.
			if q.Job == "" {
				sortTies(got)
				sortTies(want)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, %+v:\ngot\n%s\nwant\n%s", seed, q, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d runs were found: the queries are too narrow", found)
	}
}

// sortTies orders the finished runs of a list that ended at one instant by their text.
func sortTies(rows []string) {
	ended := func(s string) string {
		_, rest, _ := strings.Cut(s, " ended ")
		at, _, _ := strings.Cut(rest, " ")
		return at
	}
	for i := 0; i < len(rows); {
		n := i + 1
		for n < len(rows) && ended(rows[i]) != "0" && ended(rows[n]) == ended(rows[i]) {
			n++
		}
		slices.Sort(rows[i:n])
		i = n
	}
}

// TestRunsThatChangeStateKeepTheirPlace: between two pages, unfinished runs pass from state to state, others
// end, and more finish. Each that stays unfinished is in the list once, and so is each that was finished
// before.
func TestRunsThatChangeStateKeepTheirPlace(t *testing.T) {
	for seed := range uint64(40) {
		r := newListRig(t, seed, 60)
		stays := map[string]bool{}
		var moving []*store.Record
		for ref, rec := range r.records {
			if !rec.State.Run.Live || ref.Namespace != listedNamespace {
				continue
			}
			stays[fmt.Sprint(ref.Key, ref.Seq)] = true
			moving = append(moving, rec)
		}
		slices.SortFunc(moving, func(a, b *store.Record) int { return a.Compare(b.Ref) })
		for _, rec := range r.history {
			if rec.Key.Namespace == listedNamespace {
				stays[rec.ID.String()] = true
			}
		}
		seen := map[string]int{}
		q := carillon.RunQuery{Namespace: listedNamespace, PageSize: 1 + r.rng.IntN(10)}
		for pages := 0; pages == 0 || q.PageToken != ""; pages++ {
			page, err := r.list.ListRuns(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range page.Runs {
				name := run.ID
				if !run.Status.Finished() {
					id, err := store.ParseRunID(run.ID)
					if err != nil {
						t.Fatal(err)
					}
					name = fmt.Sprint(carillon.Key{Namespace: run.Namespace, Name: run.Job}, id.Seq)
				}
				seen[name]++
			}
			q.PageToken = page.NextPageToken
			r.shuffle(moving, stays)
		}
		for name := range stays {
			if seen[name] != 1 {
				t.Errorf("seed %d: %s is in the list %d times", seed, name, seen[name])
			}
		}
	}
}

// shuffle moves some of the records to other states; a few end.
func (r *listRig) shuffle(moving []*store.Record, stays map[string]bool) {
	phases := []carillon.Phase{carillon.PhaseReady, carillon.PhaseStaged, carillon.PhaseRunning,
		carillon.PhaseRetrying}
	for _, rec := range moving {
		if r.rng.IntN(3) > 0 || !rec.State.Run.Live {
			continue
		}
		p := store.PartitionOf(rec.Key, len(r.shards))
		b := &store.Batch{}
		run := rec.State.Run
		if r.pass(&rec.State, phases[r.rng.IntN(len(phases))], rec.Seq); r.rng.IntN(20) == 0 {
			job, err := codec.DecodeSpec(rec.Spec, rec.Key)
			if err != nil {
				r.t.Fatal(err)
			}
			delete(stays, fmt.Sprint(rec.Key, rec.Seq))
			end := r.finished(&job, p, run.Scheduled)
			end.Finished = 1000 + r.rng.Int64N(10)
			b.Runs = append(b.Runs, end)
			rec.State.Run = store.RunState{}
			rec.State.Phase, rec.State.Queue = carillon.PhaseScheduled, ""
		} else {
			rec.State.Run.Scheduled = run.Scheduled
		}
		put := *rec
		put.Spec = nil
		b.Puts = append(b.Puts, put)
		if err := r.shards[p].Apply(r.t.Context(), b); err != nil {
			r.t.Fatal(err)
		}
	}
}
