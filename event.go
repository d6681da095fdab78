package carillon

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Events tells what happens to jobs, runs, queues and nodes.
type Events interface {
	// Watch calls f with what happens from now on or, with a position, from there on: as soon as it is
	// durable, and at least every 15 s, then without events. What happens to one job comes in its order,
	// and so does what happens within a partition; events of different partitions come about in the order
	// of their times. Nothing is left out. If that cannot be kept up, because the events since the
	// position are no longer there, it ends with FailedPrecondition: list what there is, and watch again
	// without a position. It also ends with ctx, with an error of f, and with Unavailable if the node
	// leaves: watch from the last position.
	//
	// A position holds for 10 min after the last watch has ended, on any node.
	Watch(ctx context.Context, q WatchQuery, f func(EventBatch) error) error
}

// WatchQuery selects events.
type WatchQuery struct {
	Namespace string // empty: all namespaces, and nodes
	Prefix    string // of the names of jobs; needs a namespace
	// Types are types of events or groups of them, which are what a type begins with up to its dot: "run" is
	// all that happens to runs. Empty: all.
	Types    []EventType
	Position string // an earlier batch's; empty: from now on
}

// EventBatch is what has happened since the batch before it.
type EventBatch struct {
	Events []Event // not to be changed: other watchers may have the same
	// Position is where the next batch begins. Those of different watches mean the same, whatever they
	// select.
	Position string
}

// Event is something that has happened, and is durable.
type Event struct {
	// ID is the event's own. An event that comes again, as after a resumed watch, has the same.
	ID   string
	Type EventType
	Time time.Time

	Namespace  string
	Job        string
	Generation uint64 // of the job

	Run       string    // its id, except of times that were skipped before a run began
	Scheduled time.Time // of the run; of several skipped times the last
	Attempt   int       // the run's newest
	Reason    string    // why the run was cancelled or skipped, or the job paused
	Error     string    // of the attempt that failed, at most 1 KiB
	RetryAt   time.Time // the next attempt's time
	Skipped   uint64    // how many times were skipped
	From      time.Time // the first of them; since when the queue is unserved
	Late      time.Duration

	Queue     string // the name of the queue, of one of Namespace
	QueueKind string // of its target: worker or dapr
	Node      string // the name of the node
}

// EventType is the type of an event. Those of later versions may be among what comes.
type EventType string

// The types of events.
const (
	EventJobCreated EventType = "job.created"
	EventJobChanged EventType = "job.changed" // another generation
	// The job was deleted by a caller. One that ends by itself, as a one-shot with its run, has no event.
	EventJobDeleted EventType = "job.deleted"
	EventJobPaused  EventType = "job.paused" // Reason is "failure" if an attempt's result asked for it
	EventJobResumed EventType = "job.resumed"

	EventRunSucceeded EventType = "run.succeeded"
	EventRunRetrying  EventType = "run.retrying" // an attempt failed, and another one follows
	EventRunFailed    EventType = "run.failed"   // out of attempts, and not kept
	EventRunDead      EventType = "run.dead"     // out of attempts, kept for a redrive
	EventRunCancelled EventType = "run.cancelled"
	EventRunSkipped   EventType = "run.skipped"
	// The first attempt began more than 1 s after the run was due. It comes once the attempt is durable: when
	// it has lasted for a second or more, or with its end.
	EventRunLate EventType = "run.late"

	// Runs have waited in a queue for [Namespace.UnservedAfter], and for as long nobody has taken any. It
	// comes up to 15 s later.
	EventQueueUnserved EventType = "queue.unserved"
	EventQueueServed   EventType = "queue.served" // taken again, or none waits, or the queue is paused

	EventNodeJoined EventType = "node.joined"
	EventNodeLeft   EventType = "node.left" // it had said that it would
	// The node went without a word: it was killed, is cut off from the store, or stands still.
	EventNodeLost EventType = "node.lost"
)

// EventTypes returns all types of events.
func EventTypes() []EventType {
	return []EventType{EventJobCreated, EventJobChanged, EventJobDeleted, EventJobPaused, EventJobResumed,
		EventRunSucceeded, EventRunRetrying, EventRunFailed, EventRunDead, EventRunCancelled, EventRunSkipped,
		EventRunLate, EventQueueUnserved, EventQueueServed, EventNodeJoined, EventNodeLeft, EventNodeLost}
}

// group returns what the type begins with.
func (t EventType) group() EventType {
	group, _, _ := strings.Cut(string(t), ".")
	return EventType(group)
}

// Validate returns what is wrong with the query, but for its position, which only a node can read.
func (q *WatchQuery) Validate() error {
	if q.Namespace != "" {
		if err := (&JobQuery{Namespace: q.Namespace, Prefix: q.Prefix}).Validate(); err != nil {
			return err
		}
	} else if q.Prefix != "" {
		return invalid("prefix", "it needs a namespace")
	}
	if err := checkEventTypes("types", q.Types); err != nil {
		return err
	}
	for _, t := range q.Types {
		switch group := t.group(); {
		case group == "node" && q.Namespace != "":
			return invalid("types", "%q would tell nothing: nodes belong to no namespace; watch all of them", t)
		case group != "job" && group != "run" && q.Prefix != "":
			return invalid("types", "%q would tell nothing: with a prefix there are events of jobs and runs alone", t)
		}
	}
	return nil
}

func checkEventTypes(field string, types []EventType) error {
	known := EventTypes()
	for _, t := range types {
		if !slices.ContainsFunc(known, t.selects) {
			return invalid(field, "%.64q is no type of events, nor a group of them; there are %v", t, known)
		}
	}
	return nil
}

// selects reports whether t, which may be a group, selects events of a type.
func (t EventType) selects(of EventType) bool { return t == of || t == of.group() }

// Selects reports whether the query selects the event.
func (q *WatchQuery) Selects(e *Event) bool {
	return (q.Namespace == "" || q.Namespace == e.Namespace) && strings.HasPrefix(e.Job, q.Prefix) &&
		(len(q.Types) == 0 || slices.ContainsFunc(q.Types, func(t EventType) bool { return t.selects(e.Type) }))
}
