package kubens

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/carillonhq/carillon"
)

// Jobs is where jobs are removed: [carillon.Jobs].
type Jobs interface {
	DeleteJobs(ctx context.Context, namespace, prefix string) (int, error)
}

// Options says what a watcher does. The zero value of a field is its default, given here; Jobs has none.
type Options struct {
	Jobs Jobs
	// File keeps the names of the namespaces while no node runs. Default: they are forgotten.
	File string
	// Turn returns how long to leave a namespace to other nodes. Default: not at all. See [Turn].
	Turn func(ctx context.Context) time.Duration
	// Log is told what is removed, and what keeps it from being removed. Default: no log.
	Log *slog.Logger
}

const (
	firstRetry = time.Second
	lastRetry  = time.Minute
	// lookAgain is after how long every namespace is looked at again, to save what could not be saved.
	lookAgain = 10 * time.Minute
)

// followed is what warnings about all namespaces together are about: no namespace has this name.
const followed = ""

// errUnknown says that the list of namespaces is not to be relied on.
var errUnknown = errors.New("no jobs are removed by this list of namespaces")

// errIncomplete is no reason to doubt what the server has told of a namespace, only what the list lacks.
var errIncomplete = fmt.Errorf("%w: it lacks kube-system, so it is not complete", errUnknown)

// Watcher follows the namespaces of a cluster of Kubernetes, and removes Dapr's jobs of those that are
// deleted.
type Watcher struct {
	options Options
	client  *Client
	present cache.SharedIndexInformer // the namespaces that there are, as was heard last
	queue   workqueue.TypedRateLimitingInterface[string]
	end     context.CancelFunc
	running sync.WaitGroup
	warned  warnings
	deleted deletions

	// for the goroutine that works off the queue
	cluster types.UID
	known   *known
	yielded map[string]bool // namespaces that were left to other nodes first
}

// Watch follows the namespaces of the client's cluster until Close.
func Watch(client *Client, o Options) (*Watcher, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Turn == nil {
		o.Turn = func(context.Context) time.Duration { return 0 }
	}
	w := &Watcher{
		options: o,
		client:  client,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)),
		known:   &known{file: o.File, log: o.Log},
		yielded: map[string]bool{},
	}
	heard, err := w.listen()
	if err != nil {
		w.queue.ShutDown()
		return nil, err
	}
	ctx, end := context.WithCancel(klog.NewContext(context.Background(), logr.FromSlogHandler(o.Log.Handler())))
	w.end = end
	w.running.Go(func() { w.present.RunWithContext(ctx) })
	w.running.Go(func() { w.work(ctx, heard) })
	return w, nil
}

// Close ends the watcher; what is not done by then is done after the next start, or by another node.
func (w *Watcher) Close() {
	w.end()
	w.running.Wait()
}

// listen prepares the informer; heard tells when all namespaces are in the queue.
func (w *Watcher) listen() (heard cache.InformerSynced, err error) {
	w.present = cache.NewSharedIndexInformer(w.client, &metav1.PartialObjectMetadata{}, lookAgain, nil)
	handler, addErr := w.present.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    w.look,
		UpdateFunc: func(_, object any) { w.look(object) },
		DeleteFunc: w.told,
	})
	err = errors.Join(addErr, w.present.SetTransform(slim),
		w.present.SetWatchErrorHandlerWithContext(w.cannotFollow))
	if err != nil {
		return nil, fmt.Errorf("follow the namespaces of Kubernetes: %w", err)
	}
	return handler.HasSynced, nil
}

// slim keeps what is needed of a namespace.
func slim(object any) (any, error) {
	if m, ok := object.(*metav1.PartialObjectMetadata); ok {
		m.ObjectMeta = metav1.ObjectMeta{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
	}
	return object, nil
}

// look puts a namespace into the queue that has come, changed or gone.
func (w *Watcher) look(object any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		w.options.Log.Error("Kubernetes told of a namespace without a name", "error", err)
		return
	}
	w.queue.Add(name)
}

// told puts a namespace into the queue that the API server has told to be deleted, or that a list lacks.
func (w *Watcher) told(object any) {
	if m, ok := object.(*metav1.PartialObjectMetadata); ok {
		w.deleted.set(m.Name, true)
	}
	w.look(object)
}

// cannotFollow logs why the API server is not followed at present. It is tried again, with a backoff.
func (w *Watcher) cannotFollow(ctx context.Context, _ *cache.Reflector, err error) {
	switch {
	case ctx.Err() != nil:
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), errors.Is(err, io.EOF):
		w.options.Log.Debug("the namespaces of Kubernetes are listed again", "reason", err)
	case w.warned.due(followed):
		w.options.Log.Warn("the namespaces of Kubernetes cannot be followed: jobs of those that are deleted stay until they can",
			"reason", err)
	}
}

// work looks at the namespaces of the queue, once all have been heard of.
func (w *Watcher) work(ctx context.Context, heard cache.InformerSynced) {
	defer context.AfterFunc(ctx, w.queue.ShutDown)()
	if !cache.WaitForCacheSync(ctx.Done(), heard) {
		return
	}
	for {
		name, ended := w.queue.Get()
		if ended {
			return
		}
		w.take(ctx, name)
		w.queue.Done(name)
	}
}

// take looks at a namespace, and again later if that is needed.
func (w *Watcher) take(ctx context.Context, name string) {
	later, err := w.settle(ctx, name)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.warn(name, err)
		w.queue.AddRateLimited(name)
	case later > 0:
		w.queue.AddAfter(name, later)
	default:
		w.queue.Forget(name)
		w.warned.over(name)
	}
}

// warn says why a namespace could not be looked at; of an unknown list once, not for each namespace.
func (w *Watcher) warn(name string, err error) {
	switch unknown := errors.Is(err, errUnknown); {
	case unknown && w.warned.due(followed):
		w.options.Log.Warn("the namespaces of Kubernetes are not used; it is tried again", "reason", err)
	case !unknown && w.warned.due(name):
		w.options.Log.Warn("a namespace of Kubernetes is not settled; it is tried again", "namespace", name, "reason", err)
	}
}

// settle removes the jobs of a namespace if it is gone; if it is left to other nodes first, it says for
// how long.
func (w *Watcher) settle(ctx context.Context, name string) (later time.Duration, err error) {
	told := w.deleted.has(name)
	if err := w.recognise(); err != nil && (!told || !errors.Is(err, errIncomplete)) {
		return 0, err
	}
	if _, there := w.lookUp(name); there {
		delete(w.yielded, name)
		w.deleted.set(name, false)
		w.known.set(name, true)
		return 0, nil
	}
	if gone, err := isGone(ctx, w.client, name, told); err != nil || !gone {
		return 0, err
	}
	if later = w.options.Turn(ctx); later > 0 && !w.yielded[name] {
		w.yielded[name] = true
		return later, nil
	}
	removed, err := w.options.Jobs.DeleteJobs(ctx, name, carillon.DaprPrefix)
	if removed > 0 {
		w.options.Log.Info("jobs are removed, as Kubernetes no longer has their namespace", "namespace", name, "jobs", removed)
	}
	if err != nil {
		return 0, fmt.Errorf("remove its jobs: %w", err)
	}
	delete(w.yielded, name)
	w.deleted.set(name, false)
	w.known.set(name, false)
	return 0, nil
}

// recognise makes sure that the list of namespaces is that of a whole cluster, and always of the same one:
// every cluster has kube-system, which cannot be deleted. The first time it takes up what is known of the
// cluster.
func (w *Watcher) recognise() error {
	system, there := w.lookUp(metav1.NamespaceSystem)
	switch {
	case !there:
		return errIncomplete
	case w.cluster == "":
		w.cluster = system.UID
		for _, name := range w.known.begin(string(w.cluster), w.present.GetStore().ListKeys()) {
			w.queue.Add(name)
		}
	case w.cluster != system.UID:
		return fmt.Errorf("%w: it is of another cluster of Kubernetes than at the start of this node", errUnknown)
	}
	return nil
}

// lookUp finds a namespace among those that there are.
func (w *Watcher) lookUp(name string) (*metav1.PartialObjectMetadata, bool) {
	object, there, err := w.present.GetStore().GetByKey(name)
	m, ok := object.(*metav1.PartialObjectMetadata)
	return m, err == nil && there && ok
}
