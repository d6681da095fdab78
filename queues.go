package carillon

import (
	"slices"
	"strings"
	"time"
)

// QueueQuery selects queues of a cluster, in the order of their namespaces, kinds and names.
type QueueQuery struct {
	Namespace string // empty: of all namespaces
	Kind      string // "worker", "http" or "dapr"; empty: of all kinds
	PageSize  int    // default 100, at most MaxBatch
	PageToken string
}

// QueuePage is one page; an empty NextPageToken marks the last one.
type QueuePage struct {
	Queues        []Queue
	NextPageToken string
	// Unheard are the nodes, by id, that have not answered in time, or cannot, being of an older version: what
	// they know is not in the page.
	Unheard []string
}

// Queue is what runs are handed out by: a queue of workers, a host of HTTP targets, or an app or actor type
// of Dapr. It is listed while runs wait in it or are in flight, and while a consumer serves it.
type Queue struct {
	Namespace string
	Kind      string // the target's kind: "worker", "http" or "dapr"
	Name      string // a worker queue, a host with its port, app/APP or actor/TYPE

	Ready   int // due runs in memory that wait for a consumer or for room, as of the last second
	Limited int // due runs in memory that wait for a permit of a limit, as of the last second
	// Staged are due runs in the store that wait, as of the last count: every 10 s, or less often if counting
	// takes long.
	Staged int
	// Oldest is when the oldest of these was due; zero: none waits.
	Oldest time.Time

	// Consumers are the connections of workers or sidecars that serve it, or the nodes that send to the host.
	Consumers int
	Silent    int // of them, those that get nothing until they send something
	Credits   int // runs that consumers have room for now
	InFlight  int // attempts that consumers have
	// Unserved: runs wait in partitions of a node at which no consumer takes any. Nobody need connect for HTTP,
	// so it is never so there.
	Unserved bool
}

// Waiting returns about how many due runs wait: one that was just read back from the store is in two of the
// numbers until the next count.
func (q *Queue) Waiting() int { return q.Ready + q.Limited + q.Staged }

// WorkerQuery selects connections of workers and Dapr's sidecars, in the order of their namespaces, kinds and
// ids.
type WorkerQuery struct {
	Namespace string // empty: of all namespaces
	Kind      string // "worker" or "dapr"; empty: both
	Queue     string // that serve the queue of this name; empty: any
	PageSize  int    // default 100, at most MaxBatch
	PageToken string
}

// WorkerPage is one page; an empty NextPageToken marks the last one.
type WorkerPage struct {
	Workers       []Worker
	NextPageToken string
	// Unheard are the nodes, by id, that have not answered in time, or cannot, being of an older version: what
	// they know is not in the page.
	Unheard []string
}

// Worker is a connection of a worker or of a Dapr sidecar to a node. A worker that serves several nodes has a
// connection to each.
type Worker struct {
	Namespace string
	Kind      string // "worker" or "dapr"
	ID        string
	Node      string // that it is connected to
	Labels    map[string]string
	Queues    []string // that it serves
	Since     time.Time
	Version   string    // what it says that it is built of, as in "carillon-go/v0.3.1"; empty: nothing
	LastSeen  time.Time // when the node last got a message of it
	Credits   int       // runs that it has room for now
	InFlight  int       // attempts that it has
	Silent    bool      // it gets nothing until it sends something
}

// The kinds of queues.
var queueKinds = []string{"worker", "http", "dapr"}

// Validate returns an error about the first wrong field. The page token is checked by the node that made it.
func (q *QueueQuery) Validate() error {
	if err := checkQueried(q.Namespace, q.PageSize); err != nil {
		return err
	}
	return checkQueueKind(q.Kind, queueKinds)
}

// Validate returns an error about the first wrong field. The page token is checked by the node that made it.
func (q *WorkerQuery) Validate() error {
	if err := checkQueried(q.Namespace, q.PageSize); err != nil {
		return err
	}
	if err := checkQueueKind(q.Kind, []string{"worker", "dapr"}); err != nil {
		return err
	}
	return checkCharacters("queue", q.Queue, MaxName)
}

func checkQueueKind(kind string, of []string) error {
	if kind == "" || slices.Contains(of, kind) {
		return nil
	}
	return invalid("kind", "%q is not one of %s", clip(kind), strings.Join(of, ", "))
}
