package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/store"
)

// network leads from nodes to endpoints, in memory.
type network struct {
	workers map[string]*worker
	mu      sync.Mutex
	hosts   map[string]chan net.Conn
	blocked map[string]int
}

func newNetwork() *network {
	return &network{workers: map[string]*worker{}, hosts: map[string]chan net.Conn{}, blocked: map[string]int{}}
}

// dial is for httptarget.
func (n *network) dial(ctx context.Context, node int, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	incoming, blocked := n.hosts[host], n.blocked[host] > 0 || n.blocked[from(node, host)] > 0
	n.mu.Unlock()
	if incoming == nil || blocked {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	near, far := net.Pipe()
	select {
	case incoming <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// from names a host as one node sees it.
func from(node int, host string) string { return fmt.Sprintf("%d>%s", node, host) }

// block takes a host off the network, or brings it back; calls are counted. The host may be one as a node
// sees it.
func (n *network) block(host string, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if on {
		n.blocked[host]++
	} else {
		n.blocked[host]--
	}
}

// endpoint is one HTTP server that takes runs.
type endpoint struct {
	w      *world
	name   string
	actor  int
	server *http.Server
	incoming
	work sync.WaitGroup // of completions that come later
	mu   sync.Mutex
	met  map[string]int
}

// incoming is a listener in memory.
type incoming struct {
	conns chan net.Conn
	over  chan struct{}
	once  *sync.Once
}

// Accept is for [net.Listener].
func (l incoming) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// Close is for [net.Listener].
func (l incoming) Close() error {
	l.once.Do(func() { close(l.over) })
	return nil
}

// Addr is for [net.Listener].
func (l incoming) Addr() net.Addr { return &net.IPAddr{} }

func newEndpoint(w *world, i int, name string) *endpoint {
	return &endpoint{w: w, name: name, actor: actorEndpoint + i, met: map[string]int{},
		incoming: incoming{make(chan net.Conn), make(chan struct{}), &sync.Once{}}}
}

func (e *endpoint) open() {
	e.server = &http.Server{Handler: e, ReadHeaderTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	e.w.net.mu.Lock()
	e.w.net.hosts[e.name] = e.conns
	e.w.net.mu.Unlock()
	e.work.Go(func() { _ = e.server.Serve(e.incoming) }) // it ends with close
}

func (e *endpoint) close() {
	_ = e.server.Close() // of a server in memory
	e.work.Wait()
}

// endpointHabits are those that ServeHTTP knows.
var endpointHabits = map[string]bool{Answers500: true, Answers429: true, Answers202: true, Answers202No: true,
	Answers410: true, Answers422: true, HangsHTTP: true, CutsHTTP: true}

// ServeHTTP takes a run. What it does hangs on the run and the attempt alone.
func (e *endpoint) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	r, err := runOf(req)
	if err != nil {
		rw.WriteHeader(http.StatusInternalServerError) // the connection broke on the way
		return
	}
	e.w.rec.Attempt(attemptOf(&r, e.name, ""))
	e.w.mayPause(&r, e.name)
	e.mu.Lock()
	id := r.ID + "/" + strconv.Itoa(r.Attempt)
	nth := e.met[id]
	e.met[id]++
	e.mu.Unlock()
	luck := e.w.luck("serve", &r, nth)
	habit := ""
	if time.Now().Before(e.w.at(e.w.plan.Busy)) {
		habit = e.w.habit(luck, endpointHabits)
	}
	t := time.NewTimer(aligned(e.actor, between(luck, time.Millisecond, 700*time.Millisecond)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-req.Context().Done(): // the node has given up, or has gone
		e.sent(&r, checker.LostWorker, 0)
		return
	}
	e.answer(rw, req, &r, luck, habit)
}

// answer is the status, and what comes after it.
func (e *endpoint) answer(rw http.ResponseWriter, req *http.Request, r *carillon.Run,
	luck *rand.Rand, habit string) {
	switch habit {
	case Answers500:
		e.sent(r, checker.Failure, 0)
		rw.WriteHeader(http.StatusInternalServerError)
	case Answers429:
		after := 1 + luck.IntN(3)
		e.sent(r, checker.RetryAfter, time.Duration(after)*time.Second)
		e.slowDown(time.Duration(after) * time.Second)
		rw.Header().Set("Retry-After", strconv.Itoa(after))
		rw.WriteHeader(http.StatusTooManyRequests)
	case Answers410, Answers422:
		e.sent(r, checker.Permanent, 0)
		if habit == Answers410 { // it pauses the job, if the answer arrives
			e.w.rec.Begin(checker.Op{Kind: checker.Pause, Client: e.name, Namespace: r.Namespace, Job: r.Job})
		}
		rw.WriteHeader(map[string]int{Answers410: http.StatusGone,
			Answers422: http.StatusUnprocessableEntity}[habit])
	case Answers202, Answers202No:
		rw.Header().Set("Carillon-Async", "1")
		rw.WriteHeader(http.StatusAccepted)
		if habit == Answers202 {
			after := between(luck, 0, 4*time.Second)
			e.work.Go(func() { e.complete(r, after) })
		} else {
			e.sent(r, checker.LostWorker, 0)
		}
	case HangsHTTP:
		e.sent(r, checker.LostWorker, 0)
		<-req.Context().Done()
	case CutsHTTP:
		e.sent(r, checker.LostWorker, 0)
		panic(http.ErrAbortHandler) // the server's way to cut the connection
	default:
		e.sent(r, checker.Success, 0)
		rw.WriteHeader(http.StatusOK)
	}
}

// slowDown notes that the whole host is left alone for a while, as it asked for.
func (e *endpoint) slowDown(d time.Duration) {
	heal := e.w.rec.Break(checker.Fault{Kind: "worker host asks for less", Targets: []string{e.name}})
	e.work.Go(func() {
		pause(e.actor, d+100*time.Millisecond)
		heal()
	})
}

func (e *endpoint) sent(r *carillon.Run, kind checker.ResultKind, after time.Duration) int {
	return e.w.rec.Sent(checker.Result{RunID: r.ID, Token: r.Token, Number: r.Attempt, Kind: kind, After: after})
}

// complete is the later answer to a run that was taken with 202. It is repeated until the node takes it.
func (e *endpoint) complete(r *carillon.Run, after time.Duration) {
	for range 5 {
		pause(e.actor, after)
		i := e.sent(r, checker.Success, 0)
		err := e.w.pickNode(e.actor).call(e.name+" "+r.ID, func(ctx context.Context, api Scheduler) error {
			return api.CompleteRun(ctx, r.Namespace,
				carillon.Result{Token: r.Token, RunID: r.ID, Outcome: carillon.OutcomeSuccess})
		})
		switch {
		case err == nil:
			e.w.rec.Told(i, checker.Acked)
			return
		case errors.Is(err, carillon.FailedPrecondition), errors.Is(err, carillon.NotFound):
			e.w.rec.Told(i, checker.Stale)
			return
		}
		after = time.Second
	}
}

// runOf reads a run from its request.
func runOf(req *http.Request) (carillon.Run, error) {
	body := new(bytes.Buffer)
	if _, err := body.ReadFrom(req.Body); err != nil {
		return carillon.Run{}, err
	}
	h := req.Header
	scheduled, err := time.Parse(time.RFC3339Nano, h.Get("Carillon-Scheduled-Time"))
	if err != nil {
		return carillon.Run{}, err
	}
	attempt, err := strconv.Atoi(h.Get("Carillon-Attempt"))
	if err != nil {
		return carillon.Run{}, err
	}
	id, err := store.ParseRunID(h.Get("Ce-Id"))
	if err != nil {
		return carillon.Run{}, err
	}
	namespace, job, _ := bytes.Cut([]byte(h.Get("Carillon-Job")), []byte("/"))
	return carillon.Run{ID: h.Get("Ce-Id"), Namespace: string(namespace), Job: string(job), Cause: id.Cause,
		Scheduled: scheduled, Attempt: attempt, Token: h.Get("Carillon-Token"),
		Data: carillon.Data{Bytes: body.Bytes()}}, nil
}
