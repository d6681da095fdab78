package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"strings"

	"github.com/carillonhq/carillon"
)

// DefaultPartitions is the number of partitions of a new store. It is fixed when the store is created;
// what a store holds can move to one of another number (docs/decisions/0087).
const DefaultPartitions = 64

// Store keeps partitions durably. It is safe for concurrent use. [Driver] lists what a store may do besides;
// package storetest tests all that is promised.
type Store interface {
	// Shard returns a partition for the owner of a term. With the zero term it is read-only. It does no I/O.
	Shard(partition int, term Term) (Shard, error)
	Leaser() Leaser
	// Meta returns what the store was created with.
	Meta() Meta
	// Close waits for the batches in flight. No method may be called after it.
	Close() error
}

// Meta is written once, when the store is created.
type Meta struct {
	Format     int
	Partitions int
	MACKey     []byte // 32 random bytes that authenticate tokens
}

// Clone returns a copy that shares nothing with m.
func (m Meta) Clone() Meta {
	m.MACKey = bytes.Clone(m.MACKey)
	return m
}

// ProvingGround returns the number of a partition without jobs: the one after the last. In a store that
// several nodes share it can be claimed, released, read and written like any other. A node uses it to prove
// that it can own partitions, without taking one from another node. It is not among the Owners.
func (m Meta) ProvingGround() int { return m.Partitions }

// Shard is one partition under one term. Apply is called from one goroutine at a time; reads may be called
// from many. A read sees every batch whose Apply has returned nil.
//
// The promise that everything else rests on is that a partition has one writer. A lease cannot give it: an
// owner that was paused for longer than its lease does not know that it has expired. So every Apply compares
// its term with the partition's current one in the same atomic step that writes the data, and a claim puts a
// greater epoch in force before its caller reads anything. From then on no batch of an older term can land,
// however late it arrives: what the new owner loads is complete and stays so. The nonce does the same where a
// failover of the store's server lost the latest writes and handed out an epoch twice.
//
// An Apply ends in one of four ways ([OutcomeOf]):
//
//	             ┌─ Applied     nil: durable, whole
//	             ├─ NotApplied  no effect; the term may still be in force
//	Apply(term) ─┤
//	             ├─ Fenced      no effect, now and for every later batch of this term: it is over
//	             └─ Unknown     the write began, its outcome is not known: all of it is durable, or nothing
//
// The fourth is why a store must not guess. An engine that took Unknown for NotApplied could run a job twice,
// and one that took it for Applied could lose a job that it acknowledged. So after Unknown the owner
// acknowledges nothing more, claims the partition again and reloads it: since the claim fences the old term,
// what it reads is the final outcome.
type Shard interface {
	// Apply makes the batch durable: whole, in one atomic step, only if the term is in force at that moment.
	// [OutcomeOf] its error tells what happened. ctx bounds only the wait to begin; it does not cancel the
	// write.
	Apply(ctx context.Context, b *Batch) error
	// Read returns the records of the refs, in their order; Exists is false for absent ones.
	Read(ctx context.Context, refs []Ref) ([]Record, error)
	// List returns jobs in name order; pending runs too, or alone, where the query says so.
	List(ctx context.Context, q ListQuery) ([]Record, error)
	// Due returns records of one priority in (due, ref) order.
	Due(ctx context.Context, q DueQuery) ([]Record, error)
	// Staged returns the records staged under a queue in (priority, run due, ref) order.
	Staged(ctx context.Context, q StagedQuery) ([]Record, error)
	// Live finds the record whose unfinished run has the id; ok is false if there is none.
	Live(ctx context.Context, id RunID) (ref Ref, ok bool, err error)
	// Runs returns finished runs: those of a job newest scheduled first, others newest finished first.
	Runs(ctx context.Context, q RunQuery) ([]RunRecord, error)
	// MetaRecords returns the metadata records of a kind in key order.
	MetaRecords(ctx context.Context, q MetaQuery) ([]MetaRecord, error)
}

// Roomer is a [Store] that knows that it will soon have no room. It is optional. What is there must go on,
// and go, when there is no room for more: so the engine asks before it takes new jobs, and Apply does not.
type Roomer interface {
	// Room returns why no jobs are to be put at present, which is [ErrFull]; nil: there is room. It does no
	// I/O.
	Room() error
}

// Sparer is a [Store] that has what its partitions hold in memory, and can do with less. It is optional.
type Sparer interface {
	// Spare has about so many jobs, pending and finished runs in memory at most, however long they are, and
	// what the few partitions hold that are being read: of those that have not been read for longest nothing
	// is, and they are read again when they are read. Metadata records are not counted. It is for who goes
	// through a store once, not for who serves it.
	Spare(records int)
}

// Meter is a [Store] whose requests cost money. It is optional.
type Meter interface {
	// Requests returns how many requests have read since the store was opened, and how many have written,
	// listed or deleted.
	Requests() (reads, writes int64)
}

// Ref names a record: a job (Seq 0), or a pending run of it (Seq > 0), which a trigger, a backfill or
// [carillon.OverlapAllow] made.
type Ref struct {
	carillon.Key
	Seq uint64
}

// Job returns the ref of the job that r belongs to.
func (r Ref) Job() Ref { return Ref{Key: r.Key} }

// Compare orders refs by namespace, name and sequence.
func (r Ref) Compare(o Ref) int {
	switch {
	case r.Namespace != o.Namespace:
		return strings.Compare(r.Namespace, o.Namespace)
	case r.Name != o.Name:
		return strings.Compare(r.Name, o.Name)
	}
	return cmp.Compare(r.Seq, o.Seq)
}

// Batch is what one step of a partition changes. A ref is in Puts or Deletes at most once, a metadata
// record's kind and key in MetaRecords at most once. Trims and Expire see the batch's own Runs.
type Batch struct {
	Puts        []Record // a nil Spec keeps the stored one: only the state is rewritten
	Deletes     []Ref    // a job is deleted with all its pending runs; an absent ref is no error
	Runs        []RunRecord
	Redrive     []RunRef // dead runs to remove from the history
	Trims       []Trim
	Expire      *Expire
	MetaRecords []MetaRecord
}

// RunRef names a finished run.
type RunRef struct {
	Key carillon.Key
	ID  RunID
}

// Trim keeps a job's newest Keep finished runs. Dead runs are neither counted nor removed.
type Trim struct {
	Key  carillon.Key
	Keep int
}

// Expire removes finished runs of the whole partition in the order of their RunRecord.Expires: those whose
// Expires (never 0) is at or before Before, and then as many that are not dead as exceed Most. It removes at
// most Limit of them: the caller repeats it. So the one age index of the history is ordered by Expires.
type Expire struct {
	Before int64 // UTC ns
	Most   int
	Limit  int
}

// MetaRecord is a metadata record: a few bytes that are neither job nor run. A nil Value deletes it.
type MetaRecord struct {
	Kind  byte
	Key   string
	Value []byte
}

// ListQuery selects jobs, and pending runs.
//
// A list by a Phase other than [carillon.PhaseScheduled] reads an index of what is in that phase. Jobs and
// pending runs of the phase scheduled are in no index: most are in it, and a put, the finish of a one-shot
// and the tick of a job write nothing more than they would without.
type ListQuery struct {
	Namespace string // empty = all
	Prefix    string
	After     string // name, exclusive; with an empty Namespace: "namespace\x00name"
	Phase     *carillon.Phase
	Limit     int
	MaxSpec   int // leaves Spec nil in records whose spec is longer; 0 = no limit

	// Pending lists pending runs beside the jobs, in the order of refs. After and AfterSeq are then the ref
	// of the last record read.
	Pending  bool
	AfterSeq uint64

	// PendingOf lists the pending runs of a job alone, be it there or not, in the order of their Seq. Only
	// AfterSeq, Phase, Limit and MaxSpec apply besides.
	PendingOf *carillon.Key

	// FirstOfEach asks for the first job of each namespace, in the order of namespaces. After is then a
	// namespace, exclusive, and only Limit and MaxSpec apply besides. A store seeks behind the last job of
	// each namespace: how many jobs there are makes no difference.
	FirstOfEach bool
}

// Past sets the query to go on after the last record that was read.
func (q *ListQuery) Past(last Ref) {
	q.After, q.AfterSeq = last.Name, last.Seq
	switch {
	case q.FirstOfEach:
		q.After = last.Namespace
	case q.Namespace == "":
		q.After = last.Namespace + "\x00" + last.Name
	}
}

// Place returns the ref that the list begins after; ok is false if it begins at the start. Without Pending
// it is after all pending runs of the job.
func (q *ListQuery) Place() (after Ref, ok bool) {
	switch {
	case q.PendingOf != nil:
		return Ref{*q.PendingOf, q.AfterSeq}, true
	case q.After == "":
		return after, false
	}
	after.Namespace, after.Name, after.Seq = q.Namespace, q.After, q.AfterSeq
	if q.Namespace == "" {
		after.Namespace, after.Name, _ = strings.Cut(q.After, "\x00")
	}
	if !q.Pending {
		after.Seq = math.MaxUint64
	}
	return after, true
}

// ByPhase reports whether the index of phases has the records that the query asks for.
func (q *ListQuery) ByPhase() bool { return q.Phase != nil && *q.Phase != carillon.PhaseScheduled }

// DueQuery selects records of one priority: due <= Until, after the cursor.
type DueQuery struct {
	Priority uint8 // rank: 0 critical … 3 low
	After    Cursor
	Until    int64 // UTC ns, inclusive
	Limit    int
	// MaxSpec leaves Spec nil in records whose spec is longer (they are read at dispatch). 0 = no limit.
	MaxSpec int
}

// Cursor is an exclusive position in a due or staged index; the zero value is before everything.
type Cursor struct {
	Priority uint8 // staged only
	Due      int64
	Ref      Ref
}

// StagedQuery selects the records staged under one queue.
type StagedQuery struct {
	Queue   string
	After   Cursor
	Limit   int
	MaxSpec int
}

// RunQuery selects finished runs: one by ID, else those of Job, else All, else those of a namespace that
// ended with Status, which is then needed. How many others there are makes no difference. Who asks for
// several statuses or partitions merges their lists.
type RunQuery struct {
	ID        *RunID
	Job       *carillon.Key
	All       bool // of the partition, in an order of the store; Status, Since and Until do not filter
	Namespace string
	Status    *carillon.RunStatus
	Since     int64  // Since <= Finished, UTC ns; 0: any. With Job the bounds only filter; with ID none applies
	Until     int64  // Finished < Until; 0: any
	After     []byte // RunRecord.Cursor of the last one read; nil: from the newest
	Limit     int
}

// Check returns an error for a query that no index can answer.
func (q *RunQuery) Check() error {
	if q.ID == nil && q.Job == nil && !q.All && (q.Status == nil || !q.Status.Finished()) {
		return errStatus
	}
	return nil
}

var errStatus = errors.New("store: a query of the runs of a namespace needs the status of finished ones")

// Within reports whether a time of Finished is within the query's bounds.
func (q *RunQuery) Within(finished int64) bool {
	return (q.Since == 0 || q.Since <= finished) && (q.Until == 0 || finished < q.Until)
}

// MetaQuery selects metadata records of a kind: those whose key begins with Prefix, after After.
type MetaQuery struct {
	Kind   byte
	Prefix string
	After  string
	Limit  int
}
