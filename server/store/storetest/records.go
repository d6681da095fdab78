package storetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// ns is the namespace that most cases use.
const ns = "tenant-a"

// base is the instant that cases count from, in UTC nanoseconds.
var base = time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC).UnixNano()

// oddNames are names that a careless key encoding mixes up or puts in the wrong order; they are in order.
var oddNames = slices.Sorted(slices.Values([]string{
	"a", "a\x01", "a\x01\x01", "a\x01\x02", "a\x02", "a ", "a!", "a-b", "a.", "a/b", "a/b/c", "a/b0", "a0",
	"aa", "ab", "A", "b", "z", "z\x7f", "zürich", "zz", "\u0080", "é", "e\u0301", "日本", "\uffff", "😀",
	"\U0010ffff", "\U0010ffffa",
}))

func key(name string) carillon.Key { return carillon.Key{Namespace: ns, Name: name} }

func jobRef(name string) store.Ref { return store.Ref{Key: key(name)} }

func pendingRef(name string, seq uint64) store.Ref { return store.Ref{Key: key(name), Seq: seq} }

// uidOf is the uid of a job of the key; n tells apart its lives.
func uidOf(k carillon.Key, n byte) carillon.UID { return store.NewUID(k, [8]byte{7: n}) }

// specOf is the spec of a job with labels "key=value".
func specOf(note string, labels ...string) []byte {
	j := carillon.Job{Note: note, Target: carillon.WorkerQueue("q"), Labels: map[string]string{}}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		j.Labels[k] = v
	}
	return codec.EncodeSpec(&j)
}

// change alters a record that a case makes.
type change func(r *store.Record)

// record is a record with a spec, if it is a job, and nothing due.
func record(ref store.Ref, changes ...change) store.Record {
	r := store.Record{Ref: ref, State: store.State{UID: uidOf(ref.Key, 1), Generation: 1,
		Created: base, Priority: 2}}
	if ref.Seq == 0 {
		r.Spec = specOf("spec of " + ref.Name)
	}
	for _, c := range changes {
		c(&r)
	}
	return r
}

// job is a job with nothing due.
func job(name string, changes ...change) store.Record { return record(jobRef(name), changes...) }

// pending is a pending run of a job.
func pending(name string, seq uint64, changes ...change) store.Record {
	return record(pendingRef(name, seq), changes...)
}

func due(at int64) change { return func(r *store.Record) { r.State.Due = at } }

func priority(rank uint8) change { return func(r *store.Record) { r.State.Priority = rank } }

func phase(p carillon.Phase) change { return func(r *store.Record) { r.State.Phase = p } }

func spec(b []byte) change { return func(r *store.Record) { r.Spec = b } }

func stateOnly(r *store.Record) { r.Spec = nil }

// parked stages a record under a queue.
func parked(queue string, runDue int64) change {
	return func(r *store.Record) {
		r.State.Phase, r.State.Queue, r.State.Run.Due = carillon.PhaseStaged, queue, runDue
	}
}

// running gives a record an unfinished run.
func running(scheduled int64, cause carillon.Cause, seq uint64) change {
	return func(r *store.Record) {
		r.State.Run = store.RunState{Live: true, Scheduled: scheduled, Due: scheduled, Cause: cause, Seq: seq}
	}
}

// full gives every field of a state a value.
func full(r *store.Record) {
	r.State = store.State{
		UID: uidOf(r.Key, 9), Generation: math.MaxUint64, Created: base, Updated: base + 1,
		Phase: carillon.PhaseStaged, Paused: true, Priority: 1, Due: base + 2, Queue: "queue", Anchor: base + 3,
		Expires: base + 4, Next: base + 5, Jitter: 6, Begun: 7, Triggers: 8, Pending: 9, Kept: 10,
		Trace: "\x00\xff of a call", Payload: 19,
		Run: store.RunState{Live: true, Scheduled: base + 11, Due: base + 12,
			Cause: carillon.CauseBackfill, Seq: 13, Attempt: 14,
			Grant: store.Grant{Term: store.Term{Epoch: 15, Nonce: math.MaxUint64}, Generation: 16}, Lease: base + 17,
			Deadline: base + 18, Started: base + 19, Errors: attemptErrors(3),
			InDoubt: math.MaxInt32},
		Last: store.LastRun{Scheduled: base + 20, Finished: base + 21, Cause: carillon.CauseTrigger,
			Seq: 22, Attempt: 23, Status: carillon.RunFailed, Failures: 5},
		Counters: carillon.Counters{Fired: 24, Succeeded: 25, Failed: 26, Retried: 27, Dead: 28,
			Skipped: 29, Late: 30, Dropped: 31, Cancelled: 32},
	}
}

func attemptErrors(n int) []carillon.AttemptError {
	var out []carillon.AttemptError
	for i := range n {
		out = append(out, carillon.AttemptError{Attempt: i + 1, At: time.Unix(0, base+int64(i)).UTC(),
			Message:  fmt.Sprint("error ", i),
			Redriven: i%2 == 1})
	}
	return out
}

// runID is the identity of a job's run that was scheduled at base + n.
func (s shard) runID(k carillon.Key, n int64) store.RunID {
	return store.RunID{Partition: uint16(s.partition), UID: uidOf(k, 1), Scheduled: base + n}
}

// run is a finished run of a job that was scheduled at base + n.
func (s shard) run(name string, n int64, status carillon.RunStatus) store.RunRecord {
	k := key(name)
	return store.RunRecord{Key: k, ID: s.runID(k, n),
		Grant: store.Grant{Term: store.Term{Epoch: 1, Nonce: 2}, Generation: 1}, Status: status, Due: base + n,
		Started: base + n + 1, Finished: base + n + 2, Expires: base + n + 1000, Attempt: 1}
}

// fullRun is a run with a value in every field.
func (s shard) fullRun(name string, n int64) store.RunRecord {
	r := s.run(name, n, carillon.RunDead)
	r.ID.Cause, r.ID.Seq, r.Errors, r.Response = carillon.CauseTrigger, 300, attemptErrors(2), []byte("answer")
	r.Worker, r.Reason, r.Skipped, r.From, r.Spec, r.Trace = "w", "r", 7, base-1, specOf("dead"), "\x00\xff"
	r.Queue, r.Labels = ns+"\x00worker\x00q", map[string]string{"env": "prod", "team": ""}
	return r
}

// canonRecord is all of a record as text: equal records, equal texts.
func canonRecord(r store.Record) string {
	return fmt.Sprintf("%q %q %d exists=%v spec=%x state=%x", r.Namespace, r.Name, r.Seq, r.Exists, r.Spec,
		codec.AppendState(nil, &r.State))
}

// canonRun is all of a run as text, but its cursor.
func canonRun(r store.RunRecord) string {
	return fmt.Sprintf("%q %q %d %x", r.Key.Namespace, r.Key.Name, r.ID.Scheduled-base, codec.AppendRun(nil, &r))
}

// canonRef is a record's name as text.
func canonRef(r store.Record) string { return fmt.Sprintf("%q %q %d", r.Namespace, r.Name, r.Seq) }

// canonMetaRecords is a metadata record as text.
func canonMetaRecords(s store.MetaRecord) string {
	return fmt.Sprintf("%d %q %x", s.Kind, s.Key, s.Value)
}

func canons[T any](list []T, canon func(T) string) []string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = canon(x)
	}
	return out
}

func lines(list []string) string { return "\t" + strings.Join(list, "\n\t") }

// stored is a record as it comes back.
func stored(r store.Record) store.Record {
	r.Exists = true
	return r
}

// wantRecords checks a list of records, their bytes included.
func (e *env) wantRecords(what string, got []store.Record, want ...store.Record) {
	e.Helper()
	for i := range want {
		want[i] = stored(want[i])
	}
	e.wantTexts(what, canons(got, canonRecord), canons(want, canonRecord))
}

// wantRefs checks which records are in a list, in order.
func (e *env) wantRefs(what string, got []store.Record, want ...store.Ref) {
	e.Helper()
	var texts []string
	for _, ref := range want {
		texts = append(texts, canonRef(store.Record{Ref: ref}))
	}
	e.wantTexts(what, canons(got, canonRef), texts)
}

// wantNames checks which jobs of ns are in a list, in order.
func (e *env) wantNames(what string, got []store.Record, names ...string) {
	e.Helper()
	var refs []store.Ref
	for _, name := range names {
		refs = append(refs, jobRef(name))
	}
	e.wantRefs(what, got, refs...)
}

// wantRuns checks a list of runs.
func (e *env) wantRuns(what string, got []store.RunRecord, want ...store.RunRecord) {
	e.Helper()
	e.wantTexts(what, canons(got, canonRun), canons(want, canonRun))
}

// wantMetaRecords checks a list of metadata records.
func (e *env) wantMetaRecords(what string, got []store.MetaRecord, want ...store.MetaRecord) {
	e.Helper()
	e.wantTexts(what, canons(got, canonMetaRecords), canons(want, canonMetaRecords))
}

func (e *env) wantTexts(what string, got, want []string) {
	e.Helper()
	if !slices.Equal(got, want) {
		e.Errorf("%s: got\n%s\nwant\n%s", what, lines(got), lines(want))
	}
}

// wantRecord checks one record.
func (s shard) wantRecord(want store.Record) {
	s.Helper()
	s.wantRecords("Read", []store.Record{s.read(want.Ref)}, want)
}

// wantGone checks that a record is not there.
func (s shard) wantGone(ref store.Ref) {
	s.Helper()
	if got := s.read(ref); got.Exists || got.Ref != ref || got.Spec != nil ||
		len(codec.AppendState(nil, &got.State)) != 0 {
		s.Errorf("Read of %v, which is not there, gives %+v", ref, got)
	}
}
