package scenario_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	sessions "github.com/carillonhq/carillon/server/internal/dispatch/worker"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// world is a node, its store and its workers, in a bubble.
type world struct {
	t      *testing.T
	config engine.Config
	disk   store.Store
	node   *node // nil while it is down
	mu     sync.Mutex
	seen   []delivery
}

// node is one life of the node.
type node struct {
	*engine.Engine
	hub  *dispatch.Hub
	wire *wire
}

// delivery is an attempt as a worker saw it.
type delivery struct {
	carillon.Run
	At     time.Time
	Worker string
}

// inBubble runs a test with a world of its own.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	withConfig(t, engine.Config{}, test)
}

func withConfig(t *testing.T, c engine.Config, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, config: c, disk: memory.New(memory.Options{Partitions: 4})}
		w.start()
		test(t, w)
		if w.node != nil {
			w.stop()
		}
	})
}

// wire is the store as one life of the node reaches it; a dead node reaches nothing.
type wire struct {
	store.Store
	cut    atomic.Bool
	refuse atomic.Bool // takes no writes
}

var (
	errCut    = errors.New("the node is dead")
	errRefuse = errors.New("the store takes no writes")
)

// Shard is for [store.Store].
func (w *wire) Shard(p int, term store.Term) (store.Shard, error) {
	if w.cut.Load() {
		return nil, errCut
	}
	s, err := w.Store.Shard(p, term)
	return shard{s, w}, err
}

// Leaser is for [store.Store].
func (w *wire) Leaser() store.Leaser { return leaser{w.Store.Leaser(), w} }

// leaser is the leases as one life of the node reaches them: a dead node neither renews nor releases.
type leaser struct {
	store.Leaser
	wire *wire
}

// Renew is for [store.Leaser].
func (l leaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) ([]store.Holding, error) {
	if l.wire.cut.Load() {
		return nil, errCut
	}
	return l.Leaser.Renew(ctx, node, held, ttl)
}

// Release is for [store.Leaser].
func (l leaser) Release(ctx context.Context, node string, held []store.Holding) error {
	if l.wire.cut.Load() {
		return errCut
	}
	return l.Leaser.Release(ctx, node, held)
}

type shard struct {
	store.Shard
	wire *wire
}

// Apply is for [store.Shard].
func (s shard) Apply(ctx context.Context, b *store.Batch) error {
	if s.wire.cut.Load() {
		return errCut
	}
	if s.wire.refuse.Load() {
		return errRefuse
	}
	return s.Shard.Apply(ctx, b)
}

func (w *world) start() {
	w.t.Helper()
	c := w.config
	n := &node{wire: &wire{Store: w.disk}}
	c.Store = n.wire
	n.Engine = engine.New(c)
	n.hub = dispatch.New(n.Engine, dispatch.Options{Accept: sessions.Accept(sessions.Options{})})
	if err := n.Start(w.t.Context(), n.hub); err != nil {
		w.t.Fatal(err)
	}
	w.node = n
}

// kill ends the node as SIGKILL would: what is not durable is lost, and workers lose their connection.
func (w *world) kill() {
	w.t.Helper()
	n := w.node
	w.node = nil
	n.wire.cut.Store(true)
	if err := n.hub.Close(); err != nil {
		w.t.Error(err)
	}
	_ = n.Stop(context.Background()) // it cannot release what it is cut off from
}

// stop ends the node in order.
func (w *world) stop() {
	w.t.Helper()
	n := w.node
	w.node = nil
	if err := n.hub.Close(); err != nil {
		w.t.Error(err)
	}
	if err := n.Stop(context.Background()); err != nil {
		w.t.Error(err)
	}
}

// put stores a job, for queue "q" unless it says otherwise.
func (w *world) put(j carillon.Job, opts ...carillon.PutOption) carillon.PutResult {
	w.t.Helper()
	if j.Target.Kind() == "" {
		j.Target = carillon.WorkerQueue("q")
	}
	p, err := w.node.PutJob(w.t.Context(), j, opts...)
	if err != nil {
		w.t.Fatalf("put %s: %v", j.Name, err)
	}
	return p
}

func key(name string) carillon.Key {
	return carillon.Key{Namespace: carillon.DefaultNamespace, Name: name}
}

// gone reports whether there is no such job.
func (w *world) gone(name string) bool {
	w.t.Helper()
	_, err := w.node.GetJob(w.t.Context(), key(name))
	if err != nil && !errors.Is(err, carillon.NotFound) {
		w.t.Fatal(err)
	}
	return err != nil
}

// job is a job as it stands.
func (w *world) job(name string) carillon.Job {
	w.t.Helper()
	j, err := w.node.GetJob(w.t.Context(), key(name))
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// history is the job's finished runs, oldest first.
func (w *world) history(name string) []carillon.Run {
	w.t.Helper()
	page, err := w.node.ListRuns(w.t.Context(), carillon.RunQuery{Job: name, PageSize: carillon.MaxBatch})
	if err != nil {
		w.t.Fatal(err)
	}
	ended := slices.DeleteFunc(page.Runs, func(r carillon.Run) bool { return !r.Status.Finished() })
	slices.Reverse(ended)
	return ended
}

// dead is how many runs are dead in the namespace.
func (w *world) dead() []carillon.Run {
	w.t.Helper()
	status := carillon.RunDead
	page, err := w.node.ListRuns(w.t.Context(), carillon.RunQuery{Statuses: []carillon.RunStatus{status},
		PageSize: carillon.MaxBatch})
	if err != nil {
		w.t.Fatal(err)
	}
	return page.Runs
}

// sleep passes time and lets everything that follows come to rest.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// deliveries is what workers have seen so far, of a job or of all ("").
func (w *world) deliveries(job string) []delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []delivery
	for _, d := range w.seen {
		if job == "" || d.Job == job {
			out = append(out, d)
		}
	}
	return out
}

// after is when deliveries came, counted from an instant.
func after(from time.Time, ds []delivery) []time.Duration {
	var out []time.Duration
	for _, d := range ds {
		out = append(out, d.At.Sub(from))
	}
	return out
}

// worker is a session and what it does with runs.
type worker struct {
	w       *world
	id      string
	session carillon.Session
	answer  func(run carillon.Run) []carillon.Result // called in a goroutine of its own

	mu    sync.Mutex
	acks  []string
	stale []string
	stops []string // tokens to stop
	ended chan struct{}

	stopped atomic.Bool // it keeps its session and says nothing
}

// done answers a run with success at once.
func done(run carillon.Run) []carillon.Result { return []carillon.Result{success(run)} }

// never does not answer.
func never(carillon.Run) []carillon.Result { return nil }

func success(run carillon.Run) carillon.Result {
	return carillon.Result{Token: run.Token, RunID: run.ID, Outcome: carillon.OutcomeSuccess}
}

func failure(run carillon.Run) carillon.Result {
	return carillon.Result{Token: run.Token, RunID: run.ID, Message: "no"}
}

// fails answers every run with failure at once.
func fails(run carillon.Run) []carillon.Result { return []carillon.Result{failure(run)} }

// hello is how a worker comes.
type hello struct {
	namespace string // default "default"
	queues    []string
	credits   int // of each queue; default 100
}

// work connects a worker to queue "q".
func (w *world) work(id string, answer func(carillon.Run) []carillon.Result) *worker {
	w.t.Helper()
	return w.connect(id, hello{queues: []string{"q"}}, answer)
}

func (w *world) connect(id string, h hello, answer func(carillon.Run) []carillon.Result) *worker {
	w.t.Helper()
	s, err := w.node.hub.Connect(w.t.Context(),
		carillon.Hello{Namespace: h.namespace, Queues: h.queues, WorkerID: id})
	if err != nil {
		w.t.Fatal(err)
	}
	k := &worker{w: w, id: id, session: s, answer: answer, ended: make(chan struct{})}
	if h.credits == 0 {
		h.credits = 100
	}
	var credits []carillon.Credit
	for _, q := range h.queues {
		credits = append(credits, carillon.Credit{Queue: q, N: h.credits})
	}
	k.send(carillon.WorkRequest{Credits: credits})
	go k.run()
	return k
}

func (k *worker) send(r carillon.WorkRequest) {
	k.w.t.Helper()
	if err := k.session.Send(context.Background(), r); err != nil {
		k.w.t.Errorf("%s: send: %v", k.id, err)
	}
}

// run takes what comes until the session ends.
func (k *worker) run() {
	defer close(k.ended)
	for {
		msg, err := k.session.Receive(context.Background())
		if err != nil {
			return
		}
		k.mu.Lock()
		k.acks = append(k.acks, msg.Acks...)
		k.stale = append(k.stale, msg.Stale...)
		k.stops = append(k.stops, msg.Cancel...)
		k.mu.Unlock()
		if msg.Ping && !k.stopped.Load() {
			k.send(carillon.WorkRequest{Pong: true})
		}
		for _, r := range msg.Runs {
			k.w.mu.Lock()
			k.w.seen = append(k.w.seen, delivery{Run: r, At: time.Now(), Worker: k.id})
			k.w.mu.Unlock()
			go k.treat(r)
		}
	}
}

// treat answers a run, and offers its place again.
func (k *worker) treat(r carillon.Run) {
	results := k.answer(r)
	if len(results) == 0 {
		return
	}
	// A session that has ended takes nothing more; the run is then somebody else's.
	_ = k.session.Send(context.Background(),
		carillon.WorkRequest{Results: results, Credits: []carillon.Credit{{Queue: r.Queue, N: 1}}})
}

// crash ends the session without a word.
func (k *worker) crash() {
	if err := k.session.Close(); err != nil {
		k.w.t.Error(err)
	}
	<-k.ended
}

// told is what the worker has been told: how many results are durable, and how many were stale.
func (k *worker) told() (acks, stale int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.acks), len(k.stale)
}

// empty checks that nothing is left: no job, no due or parked record, nothing in memory.
func (w *world) empty() {
	w.t.Helper()
	sleep(2 * time.Second)
	if s := w.node.Stats(); s.Resident != 0 || s.InFlight != 0 || s.Bytes != 0 {
		w.t.Errorf("left in memory: %+v", s)
	}
	for p := range w.disk.Meta().Partitions {
		sh, err := w.disk.Shard(p, store.Term{})
		if err != nil {
			w.t.Fatal(err)
		}
		jobs, err := sh.List(w.t.Context(), store.ListQuery{Limit: 10})
		if err != nil {
			w.t.Fatal(err)
		}
		for class := range uint8(4) {
			due, err := sh.Due(w.t.Context(), store.DueQuery{Priority: class, Until: 1 << 62, Limit: 10})
			if err != nil {
				w.t.Fatal(err)
			}
			jobs = append(jobs, due...)
		}
		for _, r := range jobs {
			w.t.Errorf("left in the store: %s/%d %+v", r.Key, r.Seq, r.State)
		}
	}
}
