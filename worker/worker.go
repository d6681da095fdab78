package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
)

// Options configure a worker. The zero value of a field is its default, given here.
type Options struct {
	// Concurrency is how many runs of each queue are executed at once; [Limit] sets another number for one
	// queue. Default 100, at most [MaxConcurrency].
	Concurrency int
	// Namespace is the namespace of the queues. Default "default".
	Namespace string
	// ID tells people which worker it is; it stays the same when the connection is lost. Default: the
	// machine's name and a few random letters.
	ID string
	// Labels are for people.
	Labels map[string]string
	// Grace is how long handlers may go on when the worker leaves. Default 30 s; negative: not at all.
	Grace time.Duration
	// ReturnTime is how long handlers may take to return after that, when their contexts have ended; what has
	// not returned by then is given back all the same. Default 5 s; negative: none.
	ReturnTime time.Duration
	// Log gets lines about lost connections and handlers that panic. Default: none.
	Log *slog.Logger
}

// Defaults and bounds.
const (
	DefaultConcurrency = 100
	MaxConcurrency     = 1 << 16 // a server grants no more
	DefaultGrace       = 30 * time.Second
	DefaultReturnTime  = 5 * time.Second
)

func (o Options) withDefaults() Options {
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	o.Namespace = cmp.Or(o.Namespace, carillon.DefaultNamespace)
	o.Grace = max(0, cmp.Or(o.Grace, DefaultGrace))
	o.ReturnTime = max(0, cmp.Or(o.ReturnTime, DefaultReturnTime))
	if o.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "worker"
		}
		o.ID = host + "-" + strings.ToLower(rand.Text()[:8])
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Worker runs handlers. Create it with [New], add handlers with [Handle] or [HandleResult], then call
// [Worker.Run], once.
type Worker struct {
	sched   carillon.Work
	options Options
	queues  []*queue
	faults  []error // errors of Handle and HandleResult, which Run returns
	started atomic.Bool
	stored  stored
}

// New returns a worker of the scheduler.
func New(sched carillon.Work, o Options) *Worker {
	w := &Worker{sched: sched, options: o.withDefaults()}
	w.stored.from, _ = sched.(payloads)
	return w
}

// QueueOption configures one queue.
type QueueOption func(*queue)

// Limit sets how many runs of the queue are executed at once, in place of [Options.Concurrency].
func Limit(n int) QueueOption { return func(q *queue) { q.limit = n } }

// Handle makes f the handler of a queue. Its input is decoded from the payload: JSON into any type; []byte
// and [carillon.Data] get the payload as it is. [io.Reader] gets it as a stream, however large it is; the
// stream ends with the handler. Without a payload the input is the zero value. Run returns what is wrong with
// the queue.
func Handle[T any](w *Worker, name string, f func(ctx context.Context, run carillon.Run, in T) error,
	opts ...QueueOption) {
	w.add(name, f == nil, func(ctx context.Context, run carillon.Run) ([]byte, error) {
		return nil, withInput(ctx, &w.stored, &run, func(in T) error { return f(ctx, run, in) })
	}, opts)
}

// HandleResult is [Handle] for a handler whose first result is kept with the run, as [carillon.Run].Response.
// It is encoded as JSON; the bytes of []byte and [carillon.Data] are kept as they are, and nil is no result.
// Beside an error it is kept, too, unless it is the zero value, if the run ends with that attempt. A result
// that cannot be encoded, or is longer than [carillon.MaxResponse], is left out with an error in
// [Options.Log]: the outcome stays.
func HandleResult[T, Out any](w *Worker, name string,
	f func(ctx context.Context, run carillon.Run, in T) (Out, error), opts ...QueueOption) {
	w.add(name, f == nil, func(ctx context.Context, run carillon.Run) (result []byte, err error) {
		var unkept error
		err = withInput(ctx, &w.stored, &run, func(in T) error {
			out, err := f(ctx, run, in)
			result, unkept = encode(out, err != nil)
			return err
		})
		if unkept != nil {
			w.options.Log.Error("the result of a run is left out", "queue", name, "run", run.ID, "error", unkept)
		}
		return result, err
	}, opts)
}

func (w *Worker) add(name string, empty bool, handle handler, opts []QueueOption) {
	q := &queue{name: name, limit: w.options.Concurrency, handle: handle}
	for _, option := range opts {
		option(q)
	}
	wrong := func(why string) { w.faults = append(w.faults, fmt.Errorf("worker: queue %q: %s", q.name, why)) }
	if w.started.Load() {
		panic("worker: Handle after Run") // to return it later would be a data race
	}
	for _, other := range w.queues {
		if other.name == q.name {
			wrong("it has two handlers")
		}
	}
	if empty {
		wrong("its handler is nil")
	}
	if q.limit < 1 || q.limit > MaxConcurrency {
		wrong(fmt.Sprintf("%d runs at once are not between 1 and %d", q.limit, MaxConcurrency))
	}
	w.queues = append(w.queues, q)
}

// Run executes runs until ctx is done and the runs that the worker then has are finished. The handlers'
// contexts have the values of ctx, but do not end with it. Run returns nil after an orderly leave, and an
// error if the server refuses the worker or if runs had to be given back.
func (w *Worker) Run(ctx context.Context) error {
	if w.started.Swap(true) {
		return errors.New("worker: Run was called before")
	}
	if len(w.queues) == 0 {
		return errors.New("worker: there is no handler; call worker.Handle first")
	}
	if err := errors.Join(w.faults...); err != nil {
		return err
	}
	return newConnector(ctx, w).run(ctx)
}

// open opens a session.
func (w *Worker) open(ctx context.Context) (carillon.Session, error) {
	return w.sched.Connect(ctx, w.hello())
}

// hello returns the message that introduces the worker.
func (w *Worker) hello() carillon.Hello {
	h := carillon.Hello{Namespace: w.options.Namespace, WorkerID: w.options.ID, Labels: w.options.Labels,
		Version: version(), Payloads: w.stored.from != nil}
	for _, q := range w.queues {
		h.Queues = append(h.Queues, q.name)
	}
	return h
}
