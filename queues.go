package carillon

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Queues shows the queues of a cluster and who serves them, and steers them.
type Queues interface {
	// ListQueues returns the queues that are served, in which runs wait, or that are paused, over all living
	// nodes.
	ListQueues(ctx context.Context, q QueueQuery) (QueuePage, error)
	// ListWorkers returns the connections of workers and Dapr's sidecars to all living nodes.
	ListWorkers(ctx context.Context, q WorkerQuery) (WorkerPage, error)
	// PauseQueue stops the handing out of attempts of a queue. Attempts in force go on, due runs wait. Once it
	// has returned without an error, no node hands out any, but for the nodes in Unheard: they follow within
	// 5 s. A pause lasts until ResumeQueue, whatever restarts. It is harmless to repeat; an empty note keeps
	// the one that is there. More than MaxPausedQueues → ResourceExhausted.
	PauseQueue(ctx context.Context, key QueueKey, note string) (QueueChange, error)
	// ResumeQueue ends a pause: what waits is handed out at once, on nodes in Unheard within 5 s. It is harmless
	// to repeat.
	ResumeQueue(ctx context.Context, key QueueKey) (QueueChange, error)
	// PurgeQueue cancels the due runs that wait in a queue when the call arrives, as CancelRun does, and leaves
	// attempts in force and runs that wait for their next attempt. One call ends some thousand runs of each
	// partition at most.
	PurgeQueue(ctx context.Context, key QueueKey, o PurgeOptions) (PurgeResult, error)
}

// MaxPausedQueues is how many queues may be paused at a time, and MaxQueueNote the bytes of their notes.
const (
	MaxPausedQueues = 1000
	MaxQueueNote    = 1 << 10
)

// QueueKey names a queue.
type QueueKey struct {
	Namespace string // empty: the default one
	Kind      string // as in [Queue]; empty: "worker"
	Name      string // as in [Queue]
}

// QueuePause says since when a queue is paused, and why. The zero value is that of a queue that is not.
type QueuePause struct {
	Since time.Time
	Note  string // for people
}

// QueueChange is the outcome of pausing or resuming a queue.
type QueueChange struct {
	Pause QueuePause // in force now
	Ended QueuePause // that the call has ended; the zero value: none
	// Unheard are the nodes, by id, that have not confirmed within 2 s, or cannot, being of an older version.
	Unheard []string
}

// PurgeOptions restricts a purge.
type PurgeOptions struct {
	DryRun bool // counts only
}

// PurgeResult is the outcome of PurgeQueue.
type PurgeResult struct {
	Runs int  // that it has cancelled, or would have
	More bool // there may be more: call again. Not set after a dry run
}

// QueueQuery selects queues of a cluster, in the order of their namespaces, kinds and names.
type QueueQuery struct {
	Namespace string // empty: of all namespaces
	Kind      string // as in [Queue]; empty: of all kinds
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

// Queue is what runs are handed out by: a queue of workers, a host of HTTP targets, an app or actor type of
// Dapr, or a topic, exchange, subject or stream of a broker ([Target.BrokerAddress]). It is listed while runs
// wait in it or are in flight, while a consumer serves it, and while it is paused.
type Queue struct {
	Namespace string
	Kind      string // the target's kind: "worker", "http", "dapr", "kafka", "amqp", "nats" or "redis"
	Name      string // a worker queue, a host with its port, app/APP or actor/TYPE, BROKER/NAME

	Ready   int // due runs in memory that wait for a consumer or for room, as of the last second
	Limited int // due runs in memory that wait for a permit of a limit, as of the last second
	// Staged are due runs in the store that wait, as of the last count: every 10 s, or less often if counting
	// takes long.
	Staged int
	// Oldest is when the oldest of these was due; zero: none waits.
	Oldest time.Time

	// Consumers are the connections of workers or sidecars that serve it, or the nodes that send to the host
	// or broker.
	Consumers int
	Silent    int // of them, those that get nothing until they send something
	Credits   int // runs that consumers have room for now
	InFlight  int // attempts that consumers have
	// Unserved: runs wait in partitions of a node at which no consumer takes any. Nobody need connect for HTTP
	// and brokers, so it is never so there, nor while the queue is paused.
	Unserved bool
	// Pause is that of a paused queue.
	Pause QueuePause
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
var queueKinds = []string{"worker", "http", "dapr", "kafka", "amqp", "nats", "redis"}

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
	return checkPrintable("queue", q.Queue, MaxName)
}

// Validate returns an error about the first wrong field. The namespace must be given.
func (k *QueueKey) Validate() error {
	if err := ValidateNamespace(k.Namespace); err != nil {
		return err
	}
	if err := checkQueueKind(k.Kind, queueKinds); err != nil {
		return err
	}
	switch {
	case k.Name == "":
		return invalid("name", "the queue's name is missing")
	case len(k.Name) > MaxName:
		return tooLarge("name", len(k.Name), MaxName)
	case !printable(k.Name):
		return invalid("name", "%q has a character that is not printable", clip(k.Name))
	case k.Kind == "http" && !isHost(k.Name):
		return invalid("name", "%q is no host; write it as in the URLs of the jobs, for example example.com:8080",
			clip(k.Name))
	case isBrokerKind(k.Kind) && strings.Index(k.Name, "/") < 1:
		return invalid("name", "%q is not BROKER/NAME, the name of a broker and of what it keeps apart: a topic, "+
			"an exchange, a subject or a stream", clip(k.Name))
	case k.Kind == "dapr" && !strings.HasPrefix(k.Name, "app/") && !strings.HasPrefix(k.Name, "actor/"):
		return invalid("name", "%q is neither app/APP nor actor/TYPE", clip(k.Name))
	}
	return nil
}

// isBrokerKind reports whether the kind is that of brokers.
func isBrokerKind(kind string) bool { return slices.Contains(queueKinds[3:], kind) }

// Validate checks the note.
func (p *QueuePause) Validate() error { return checkNote(p.Note, &Bounds{Note: MaxQueueNote}) }

// isHost reports whether a name is the host of a URL, with its port if it has one.
func isHost(name string) bool {
	u, err := url.Parse("http://" + name)
	return err == nil && u.Host == name && u.Hostname() != ""
}

func checkQueueKind(kind string, of []string) error {
	if kind == "" || slices.Contains(of, kind) {
		return nil
	}
	return invalid("kind", "%q is not one of %s", clip(kind), strings.Join(of, ", "))
}
