package partition_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// rig drives one machine by hand over a memory store with one partition. The test is the clock, the engine
// and the consumers.
type rig struct {
	t     tb
	cfg   partition.Config
	store store.Store
	shard store.Shard
	m     *partition.Machine
	now   int64
	uids  uint64
	trace delivery.Trace // of its calls

	batches  []*store.Batch // handed out, not yet applied
	seqs     []uint64
	durable  uint64
	attempts []delivery.Delivery // every attempt seen, in order
	at       []int64             // and when
	cancels  []delivery.Cancel
	held     []delivery.Limit // permits that the store had at the start
	until    int64            // when the machine was last used
	landed   func()           // called after each batch with what is durable; may be nil
}

// epoch is when every rig's time begins: a round instant far from any clock change.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()

// tb is what a rig needs of a test, or of one try of a property.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newRig(t tb, cfg partition.Config) *rig {
	r := &rig{t: t, cfg: cfg, store: memory.New(memory.Options{Partitions: 1}), now: epoch}
	r.start()
	return r
}

// start takes the partition under a new term, as after a crash. Only what was applied is left.
func (r *rig) start() {
	r.own()
	r.step()
}

// own takes the partition and loads what must be in memory at takeover.
func (r *rig) own() {
	terms, err := r.store.Leaser().Claim(context.Background(), "rig", []int{0}, time.Hour)
	if err != nil || terms[0].IsZero() {
		r.t.Fatalf("claim: %v %v", terms, err)
	}
	r.shard, err = r.store.Shard(0, terms[0])
	if err != nil {
		r.t.Fatal(err)
	}
	cfg := r.cfg
	cfg.Ended = r.begin(terms[0])
	cfg.Term, cfg.MACKey, cfg.Since = terms[0], r.store.Meta().MACKey, r.now
	limited := r.small(store.KindLimited)
	r.m, r.held, err = partition.Open(cfg, &partition.Snapshot{
		Parked: r.small(store.KindParked), Dependencies: r.small(store.KindDependency),
		Notices: r.small(store.KindNotice), Applied: r.small(store.KindApplied), Limited: limited,
		Commands: r.small(store.KindCommand), AuditChains: r.small(store.KindAuditChain),
		InForce: r.read(partition.LimitedRefs(limited)), Backfills: r.backfills(partition.UnfinishedBackfills),
		PausedQueues: r.pausedQueues(), Told: r.toldOf(),
		Watched: r.small(store.KindWatched), Events: r.eventRecords(partition.AfterMarks(r.watched())),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.batches, r.seqs, r.durable = nil, nil, 0
}

// begin records, as the engine does, that a term begins, and which ones did not end in order.
func (r *rig) begin(term store.Term) []partition.EndedTerm {
	var terms partition.Terms
	for _, s := range r.small(store.KindTerms) {
		var err error
		if terms, err = partition.ParseTerms(s.Value); err != nil {
			r.t.Fatal(err)
		}
	}
	terms.End(func(store.Term) int64 { return r.until })
	terms.Open = []store.Term{term}
	if err := r.shard.Apply(context.Background(),
		&store.Batch{MetaRecords: []store.MetaRecord{terms.Record()}}); err != nil {
		r.t.Fatal(err)
	}
	return terms.Ended
}

// restart takes the partition under a new term after the previous one has ended in order.
func (r *rig) restart() {
	r.m.Attempts.KeepAll()
	r.flush()
	r.start()
}

// take collects the next batch without applying it.
func (r *rig) take() {
	if len(r.batches) > 0 {
		return
	}
	if b, seq := r.m.Batch(); b != nil {
		r.batches, r.seqs = append(r.batches, b), append(r.seqs, seq)
	}
}

// land applies the batch in flight.
func (r *rig) land() {
	r.take()
	if len(r.batches) == 0 {
		return
	}
	r.wantKept(r.batches[0])
	r.wantOnce(r.batches[0])
	if err := r.shard.Apply(context.Background(), r.batches[0]); err != nil {
		r.t.Fatal(err)
	}
	r.durable = r.seqs[0]
	before := r.m.Queues.Recorded()
	r.m.Committed(r.durable, r.now)
	r.wantRecorded(before, r.batches[0])
	r.batches, r.seqs = nil, nil
	if r.landed != nil {
		r.landed()
	}
}

// wantRecorded checks that the machine tells of a batch, now durable, exactly if it names or unnames a queue
// with parked runs.
func (r *rig) wantRecorded(before uint64, b *store.Batch) {
	want := before
	if slices.ContainsFunc(b.MetaRecords,
		func(m store.MetaRecord) bool { return m.Kind == store.KindParked }) {
		want = r.durable
	}
	if got := r.m.Queues.Recorded(); got != want {
		r.t.Fatalf("batch %d of %+v is durable: recorded %d, before it was %d", r.durable, b.MetaRecords, got, before)
	}
}

// wantOnce checks that a batch changes each record at most once.
func (r *rig) wantOnce(b *store.Batch) {
	seen := make(map[store.Ref]bool, len(b.Puts)+len(b.Deletes))
	for i := range b.Puts {
		if seen[b.Puts[i].Ref] {
			r.t.Fatalf("%v is put twice in one batch", b.Puts[i].Ref)
		}
		seen[b.Puts[i].Ref] = true
	}
	for _, ref := range b.Deletes {
		if seen[ref] {
			r.t.Fatalf("%v is changed and deleted in one batch", ref)
		}
		seen[ref] = true
	}
}

// wantKept checks that a spec that the batch says is stored is stored.
func (r *rig) wantKept(b *store.Batch) {
	for i := range b.Puts {
		p := &b.Puts[i]
		if p.Kept == nil {
			continue
		}
		stored, err := r.shard.Read(context.Background(), []store.Ref{p.Ref})
		if err != nil {
			r.t.Fatal(err)
		}
		if p.Spec != nil || !bytes.Equal(p.Kept, stored[0].Spec) {
			r.t.Fatalf("%v is put with the kept spec %x, where %x is stored", p.Ref, p.Kept, stored[0].Spec)
		}
	}
}

// flush applies batches until none is left.
func (r *rig) flush() {
	for {
		r.step()
		r.take()
		if len(r.batches) == 0 {
			return
		}
		r.land()
	}
}

// step does what a round of the engine does, except for deliveries and commits.
func (r *rig) step() {
	r.until = r.now
	r.m.Tick(r.now)
	for range 3 {
		if refs := r.m.Window.Needs(64); len(refs) > 0 {
			r.m.Load(r.read(refs), r.now)
			r.m.Tick(r.now) // as the engine does, before what has been read is dropped again
			r.m.Window.Settle(refs)
		}
		r.readAhead()
		r.m.Tick(r.now)
	}
	r.cancels = append(r.cancels, r.m.Attempts.Cancels()...)
	r.m.Window.AppendWaiting(nil, r.now)
}

// readAhead reads the due index as far as the machine wants it.
func (r *rig) readAhead() {
	for q, ok := r.m.Window.WantDue(r.now); ok; q, ok = r.m.Window.WantDue(r.now) {
		records, err := r.shard.Due(context.Background(), q)
		if err != nil {
			r.t.Fatal(err)
		}
		r.m.Window.Loaded(q, records, r.now)
	}
}

func (r *rig) read(refs []store.Ref) []store.Record {
	records, err := r.shard.Read(context.Background(), refs)
	if err != nil {
		r.t.Fatal(err)
	}
	return records
}

// bring brings the job into memory if it exists.
func (r *rig) bring(k carillon.Key) {
	ref := store.Ref{Key: k}
	if !r.m.Records.Has(ref) {
		r.m.Load(r.read([]store.Ref{ref}), r.now)
	}
}

func (r *rig) put(j carillon.Job) (carillon.PutResult, error) {
	if j.Namespace == "" {
		j.Namespace = carillon.DefaultNamespace
	}
	if j.Target.Kind() == "" {
		j.Target = carillon.WorkerQueue("q")
	}
	if err := j.Validate(carillon.DefaultBounds()); err != nil {
		return carillon.PutResult{}, err
	}
	r.bring(j.Key())
	r.uids++
	req := message.PutRequest{Job: &j, Trace: r.trace}
	binary.BigEndian.PutUint64(req.Random[:], r.uids)
	return r.m.Jobs.Put(r.now, req)
}

func (r *rig) mustPut(j carillon.Job) carillon.PutResult {
	r.t.Helper()
	p, err := r.put(j)
	if err != nil {
		r.t.Fatal(err)
	}
	r.flush()
	return p
}

var queueQ = delivery.Queue{Namespace: carillon.DefaultNamespace, Kind: "worker", Address: "q"}

// recall reads parked runs back.
func (r *rig) recall() {
	for {
		sq, ok := r.m.Window.WantStaged(queueQ, 100)
		if !ok {
			return
		}
		records, err := r.shard.Staged(context.Background(), sq)
		if err != nil {
			r.t.Fatal(err)
		}
		r.m.LoadStaged(queueQ, sq, records, r.now)
		if len(records) == 0 {
			return
		}
	}
}

// deliver hands out up to n due runs of the queue "q".
func (r *rig) deliver(n int) []delivery.Delivery {
	r.step()
	ds, _ := r.m.Deliver(nil, r.now, queueQ, n, false, nil)
	for _, d := range ds {
		if r.now < d.Run.Due.UnixNano() || r.now < d.Run.Scheduled.UnixNano() {
			r.t.Fatalf("I1: %s delivered at %d, %d before it was due", d.Run.Job, r.now, d.Run.Due.UnixNano()-r.now)
		}
		r.attempts = append(r.attempts, d)
		r.at = append(r.at, r.now)
	}
	return ds
}

// advance moves time in steps, so that nothing is passed over, and delivers nothing.
func (r *rig) advance(d time.Duration) {
	end := r.now + int64(d)
	for {
		at, ok := r.m.NextWake()
		if !ok || at > end {
			break
		}
		r.now = max(r.now, at)
		r.flush()
	}
	r.now = end
	r.flush()
}

func (r *rig) report(d delivery.Delivery, res carillon.Result) partition.Verdict {
	return r.reportAs(d.Run.Token, &delivery.Report{Result: res})
}

func (r *rig) token(text string) message.Token {
	r.t.Helper()
	tok, err := message.ParseToken(text, r.store.Meta().MACKey)
	if err != nil {
		r.t.Fatal(err)
	}
	return tok
}

func (r *rig) reportAs(token string, rep *delivery.Report) partition.Verdict {
	r.t.Helper()
	tok := r.token(token)
	v := r.m.Report(r.now, tok, rep)
	if v != partition.Missing {
		return v
	}
	ref, ok := r.m.Records.Holds(tok.Run)
	if !ok {
		var err error
		if ref, ok, err = r.shard.Live(context.Background(), tok.Run); err != nil {
			r.t.Fatal(err)
		}
	}
	if ok {
		r.m.Load(r.read([]store.Ref{ref, ref.Job()}), r.now)
		if v := r.m.Report(r.now, tok, rep); v != partition.Missing {
			return v
		}
	}
	if ended, found := r.m.Ending(tok.Run); found {
		return partition.Settled(tok, rep, ended, true)
	}
	runs, err := r.shard.Runs(context.Background(), store.RunQuery{ID: &tok.Run, Limit: 1})
	if err != nil {
		r.t.Fatal(err)
	}
	if len(runs) == 0 {
		return partition.Stale
	}
	return partition.Settled(tok, rep, runs[0], true)
}

func (r *rig) succeed(d delivery.Delivery) partition.Verdict {
	return r.report(d, carillon.Result{Outcome: carillon.OutcomeSuccess})
}

func (r *rig) failRun(d delivery.Delivery) partition.Verdict {
	return r.report(d, carillon.Result{Outcome: carillon.OutcomeFailure, Message: "no"})
}

// history returns the finished runs of a job, newest first.
func (r *rig) history(name string) []store.RunRecord {
	key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: name}
	runs, err := r.shard.Runs(context.Background(), store.RunQuery{Job: &key, Limit: 10_000})
	if err != nil {
		r.t.Fatal(err)
	}
	return runs
}

// jobs returns the jobs in the store.
func (r *rig) jobs() []store.Record {
	records, err := r.shard.List(context.Background(), store.ListQuery{Limit: 10_000})
	if err != nil {
		r.t.Fatal(err)
	}
	return records
}

func keyOf(name string) carillon.Key {
	return carillon.Key{Namespace: carillon.DefaultNamespace, Name: name}
}

func (r *rig) pause(name string, paused bool) {
	r.bring(keyOf(name))
	if _, err := r.m.Jobs.SetPaused(r.now, keyOf(name), carillon.PauseOptions{Paused: paused}); err != nil {
		r.t.Fatal(err)
	}
	r.flush()
}

func (r *rig) trigger(name string) carillon.Run {
	r.bring(keyOf(name))
	run, err := r.m.Jobs.Trigger(r.now, keyOf(name), carillon.TriggerOptions{}, r.trace)
	if err != nil {
		r.t.Fatal(err)
	}
	return run
}

func queueNamed(address string) delivery.Queue {
	return delivery.Queue{Namespace: carillon.DefaultNamespace, Kind: "worker", Address: address}
}

// deliverFrom reads back what is parked under a queue and hands out its due runs.
func (r *rig) deliverFrom(q delivery.Queue, n int) []delivery.Delivery {
	r.step()
	if sq, ok := r.m.Window.WantStaged(q, 100); ok {
		records, err := r.shard.Staged(context.Background(), sq)
		if err != nil {
			r.t.Fatal(err)
		}
		r.m.LoadStaged(q, sq, records, r.now)
		r.step()
	}
	ds, _ := r.m.Deliver(nil, r.now, q, n, false, nil)
	return ds
}

// pauseLater pauses or resumes without waiting for that to be durable.
func (r *rig) pauseLater(name string, paused bool) {
	r.bring(keyOf(name))
	if _, err := r.m.Jobs.SetPaused(r.now, keyOf(name), carillon.PauseOptions{Paused: paused}); err != nil {
		r.t.Fatal(err)
	}
	r.m.Tick(r.now)
}
