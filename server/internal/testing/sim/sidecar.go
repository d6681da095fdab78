package sim

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// Sidecar is a sidecar of Dapr: it watches for the jobs of its app and the reminders of the actor types that
// it hosts. From To on it takes nothing any more.
type Sidecar struct {
	Name      string
	Namespace string
	AppID     string
	Types     []string       `json:",omitempty"` // actor types; which of them it hosts changes with its life
	Limits    []SidecarLimit `json:",omitempty"`
	Good      bool           // only succeeds, hosts all of its types and keeps its streams
	From, To  time.Duration
	Reforms   time.Duration `json:",omitempty"` // from then on it is good; 0 = never
}

// SidecarLimit is a concurrency limit that a sidecar names.
type SidecarLimit struct {
	Type string
	Key  string `json:",omitempty"` // empty: of the whole type
	Most int
}

// sidecar is a sidecar with a stream to each node. What it goes through with a run hangs on the run and the
// attempt alone.
type sidecar struct {
	w     *world
	plan  *Sidecar
	actor int

	mu    sync.Mutex
	lives int
	proc  *daprd // nil = it has none
	hung  chan struct{}
	met   map[string]int // attempts by run and number
	work  sync.WaitGroup
}

// daprd is one life of a sidecar.
type daprd struct {
	types   []string      // that it hosts
	gone    chan struct{} // closed when it has
	streams []*watchStream
}

func newSidecar(w *world, i int) *sidecar {
	return &sidecar{w: w, plan: &w.plan.Sidecars[i], actor: actorWorker + i, met: map[string]int{}}
}

// good reports whether it does nothing wrong any more.
func (k *sidecar) good() bool {
	return k.plan.Good || (k.plan.Reforms > 0 && !time.Now().Before(k.w.at(k.plan.Reforms)))
}

// run watches all nodes until it leaves.
func (k *sidecar) run() {
	var lines sync.WaitGroup
	for _, n := range k.w.nodes {
		lines.Go(func() { k.line(n, k.actor+n.number*maxWorkers) })
	}
	lines.Wait()
	k.work.Wait()
}

// line watches a node again and again until the sidecar leaves.
func (k *sidecar) line(n *node, actor int) {
	pauseUntil(actor, k.w.at(k.plan.From))
	until := k.w.at(k.plan.To)
	for time.Now().Before(until) {
		k.awake(actor)
		if s := k.watch(n, actor); s != nil {
			stop := time.AfterFunc(time.Until(until), func() { s.end() })
			k.read(s)
			stop.Stop()
			<-s.over
		}
		pause(actor, between(k.w.chance.now("watch", uint64(actor)), 20*time.Millisecond, 300*time.Millisecond))
	}
}

// watch opens a stream and says who the sidecar is.
func (k *sidecar) watch(n *node, actor int) *watchStream {
	l := n.life()
	if l == nil || n.gate.closed() != nil {
		return nil
	}
	k.mu.Lock()
	if k.proc == nil {
		k.lives++
		k.proc = &daprd{gone: make(chan struct{}), types: k.hosted()}
	}
	s := newWatchStream(k, l, k.proc, actor)
	k.proc.streams = append(k.proc.streams, s)
	k.mu.Unlock()
	s.say(&pb.WatchJobsRequest{WatchJobRequestType: &pb.WatchJobsRequest_Initial{
		Initial: k.initial(s.proc.types)}})
	go s.serve()
	return s
}

// hosted are the actor types of a new life: some of those that it may host. The caller holds the lock.
func (k *sidecar) hosted() []string {
	if k.good() {
		return k.plan.Types
	}
	r := k.w.chance.about("hosted "+k.plan.Name, uint64(k.lives))
	return slices.DeleteFunc(slices.Clone(k.plan.Types), func(string) bool { return r.IntN(4) == 0 })
}

func (k *sidecar) initial(types []string) *pb.WatchJobsRequestInitial {
	in := &pb.WatchJobsRequestInitial{Namespace: k.plan.Namespace, AppId: k.plan.AppID, ActorTypes: types}
	for _, l := range k.plan.Limits {
		limit := &pb.ConcurrencyLimit{MaxConcurrent: int32(l.Most),
			Target: &pb.ConcurrencyLimit_Actor{Actor: &pb.ConcurrencyLimitActor{Type: l.Type}}}
		if l.Key != "" {
			limit.Name = &l.Key
		}
		in.ConcurrencyLimits = append(in.ConcurrencyLimits, limit)
	}
	return in
}

// read takes what comes until the stream ends.
func (k *sidecar) read(s *watchStream) {
	for {
		d := s.take()
		if d == nil {
			return
		}
		k.awake(s.actor)
		id := fmt.Sprintf("%s/%d", d.run.ID, d.run.Attempt)
		k.mu.Lock()
		nth := k.met[id]
		k.met[id]++
		k.mu.Unlock()
		k.work.Go(func() { k.treat(s, d, nth) })
	}
}

// treat goes through a run.
func (k *sidecar) treat(s *watchStream, d *handed, nth int) {
	luck := k.w.luck("sidecar"+k.plan.Name, d.run, nth)
	habit := ""
	if !k.good() {
		habit = k.w.habit(luck, sidecarHabits)
	}
	least, most := time.Millisecond, 20*time.Millisecond
	switch habit {
	case Hangs:
		most = 8 * time.Second
	case Lasts:
		least, most = 32*time.Second, 45*time.Second
	}
	if !k.wait(s, between(luck, least, most)) {
		return
	}
	switch habit {
	case Fails:
		s.result(d, pb.WatchJobsRequestResultStatus_FAILED)
	case Forgets:
	case Twice:
		s.result(d, pb.WatchJobsRequestResultStatus_SUCCESS)
		if k.wait(s, between(luck, 0, time.Second)) {
			s.again(d)
		}
	case MadeUp:
		s.forge(d)
	case Leaves:
		k.end(s, "worker stream ended")
	case Crashes:
		k.crash(s.proc)
	default:
		s.result(d, pb.WatchJobsRequestResultStatus_SUCCESS)
	}
}

// sidecarHabits are those that treat knows.
var sidecarHabits = map[string]bool{Fails: true, Hangs: true, Lasts: true, Forgets: true, Twice: true,
	MadeUp: true, Leaves: true, Crashes: true}

// wait passes time for a run; false if its stream has ended meanwhile.
func (k *sidecar) wait(s *watchStream, d time.Duration) bool {
	t := time.NewTimer(aligned(s.actor, d))
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.over:
		return false
	}
	k.awake(s.actor)
	return s.ctx.Err() == nil
}

// end ends one stream, with whatever it holds.
func (k *sidecar) end(s *watchStream, kind string) {
	defer k.w.rec.Break(checker.Fault{Kind: kind, Targets: []string{k.plan.Name}})()
	s.end()
}

// crash ends the process with all of its streams.
func (k *sidecar) crash(p *daprd) {
	k.mu.Lock()
	if k.proc != p {
		k.mu.Unlock()
		return
	}
	k.proc = nil
	streams := p.streams
	close(p.gone)
	k.mu.Unlock()
	defer k.w.rec.Break(checker.Fault{Kind: "worker crash", Targets: []string{k.plan.Name}})()
	for _, s := range streams {
		s.end()
	}
}

// cut ends the streams, as a broken network would; the sidecar lives.
func (k *sidecar) cut() {
	k.mu.Lock()
	var streams []*watchStream
	if k.proc != nil {
		streams = slices.Clone(k.proc.streams)
	}
	k.mu.Unlock()
	for _, s := range streams {
		s.end()
	}
}

// hang lets the process stand still; what it returns lets it go on.
func (k *sidecar) hang() (wake func()) {
	hung := make(chan struct{})
	k.mu.Lock()
	k.hung = hung
	k.mu.Unlock()
	return func() {
		k.mu.Lock()
		k.hung = nil
		k.mu.Unlock()
		close(hung)
	}
}

// stopped is what is closed when the process goes on; nil = it does not stand still.
func (k *sidecar) stopped() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hung
}

// awake returns when the process does not stand still.
func (k *sidecar) awake(actor int) {
	for hung := k.stopped(); hung != nil; hung = k.stopped() {
		<-hung
		pause(actor, time.Millisecond)
	}
}

// attemptTo is a run that is handed to a stream, in the checker's words.
func (k *sidecar) attemptTo(s *watchStream, r *carillon.Run) checker.Attempt {
	a := attemptOf(r, k.plan.Name, k.plan.Namespace)
	a.Payload, a.UID, a.Node = payloadOf(&r.Data), uidOf(r.ID), s.life.node.name()
	a.Partition, a.Epoch = termOfToken(r.Token)
	return a
}
