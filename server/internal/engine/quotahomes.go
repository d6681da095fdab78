package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/quota"
	"github.com/carillonhq/carillon/server/internal/ratebucket"
	"github.com/carillonhq/carillon/server/store"
)

// quotaHomes are the homes of quotas of the namespaces whose settings this node's partitions keep. They are
// in memory only: each term of a home begins anew.
type quotaHomes struct {
	partitions *partitions
	settings   *settings
	elapsed    func() int64
	run        func(f func()) bool // in the background; false: the engine has ended

	mu  sync.Mutex
	all map[string]*quotaHome // by namespace
}

// quotaHome is the home of the quotas of one namespace, for one term.
type quotaHome struct {
	of        *quotaHomes
	namespace string
	term      store.Term // of the partition that keeps the settings

	mu      sync.Mutex
	ledger  *quota.Ledger
	bucket  *ratebucket.Bucket
	next    *recount // that has not begun; nil: none is wanted
	running bool
	ended   int64 // when the last recount did, by the engine's clock
}

// recount asks all partitions what they have, and takes back the room that they have not used. Many callers
// may wait for one.
type recount struct {
	done chan struct{}
	err  error // once done: a partition has not answered, or not counted
}

// recountEvery is the least pause between two recounts: a tenant that puts jobs for which there is no room
// must not cost others anything.
const recountEvery = 100 * time.Millisecond

// home returns the home of a namespace's quotas, which partition p keeps, under p's term.
func (hs *quotaHomes) home(ctx context.Context, p *partitionRunner, namespace string) (*quotaHome, error) {
	if hs.partitions.ofNamespace(namespace) != p {
		return nil, carillon.Errorf(carillon.Internal, "", "partition %d is not the home of namespace %q",
			p.number, namespace)
	}
	term, err := inRoundSeq(ctx, p, call{}, func(p *partitionRunner, _ int64) (store.Term, uint64, error) {
		return p.own.term, 0, nil
	})
	if err != nil {
		return nil, err
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.all[namespace]
	if h == nil || h.term.Epoch < term.Epoch {
		h = &quotaHome{of: hs, namespace: namespace, term: term, ended: -int64(recountEvery),
			ledger: quota.NewLedger(term.Epoch, len(hs.partitions.parts))}
		hs.all[namespace] = h
	}
	return h, nil
}

// serveAskRoom answers a partition that wants room.
func serveAskRoom(ctx context.Context, p *partitionRunner, m message.AskRoom) (message.Room, error) {
	if m.Partition < 0 || m.Partition >= len(p.e.parts) {
		return message.Room{}, carillon.Errorf(carillon.InvalidArgument, "asker", "there is no partition %d",
			m.Partition)
	}
	h, err := p.e.quotas.homes.home(ctx, p, m.Namespace)
	if err != nil {
		return message.Room{}, err
	}
	return h.ask(ctx, &m)
}

// ask gives room. If there is not enough, all partitions are asked to give up theirs first.
func (h *quotaHome) ask(ctx context.Context, m *message.AskRoom) (message.Room, error) {
	for recounted := false; ; recounted = true {
		q := h.of.settings.inForce(h.namespace).Quotas
		h.mu.Lock()
		room, ok := h.ledger.Ask(m, quota.Most(&q))
		known, used, bounds := h.ledger.Known(), h.ledger.Used(), h.ledger.Bounds()
		h.mu.Unlock()
		switch {
		case ok:
			return room, nil
		case known && recounted:
			return room, h.full(&q, used, bounds, m.Want)
		}
		if err := h.recount(ctx); err != nil {
			return room, err
		}
	}
}

// full returns the error of a put for which there is no room. What the partitions hold for batches, and what
// they got since they were asked, is as good as used.
func (h *quotaHome) full(q *carillon.Quotas, used, bounds, want message.Amount) error {
	what, field, of, used1, more, most := "jobs", "quotas.jobs", "", used.Jobs, bounds.Jobs-used.Jobs, q.Jobs
	wants := want.Jobs
	if want.Jobs == 0 || q.Jobs == 0 || bounds.Jobs+want.Jobs <= q.Jobs {
		what, field, of = "bytes", "quotas.payload_bytes", " of data"
		used1, more, most, wants = used.Bytes, bounds.Bytes-used.Bytes, q.PayloadBytes, want.Bytes
	}
	text := fmt.Sprintf("namespace %q has %s of %s %s%s", h.namespace, grouped(used1), grouped(most), what, of)
	if more > 0 {
		text += fmt.Sprintf(", %s more are being put", grouped(more))
	}
	if wants > 1 {
		text += fmt.Sprintf(", and %s more are to be put", grouped(wants))
	}
	return carillon.Errorf(carillon.ResourceExhausted, field, "%s", text)
}

// recount waits for a recount that begins after the call.
func (h *quotaHome) recount(ctx context.Context) error {
	h.mu.Lock()
	if h.next == nil {
		h.next = &recount{done: make(chan struct{})}
	}
	r, start := h.next, !h.running
	h.running = true
	h.mu.Unlock()
	if start && !h.of.run(h.run) {
		return h.of.partitions.errStopping()
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return carillon.Errorf(carillon.Unavailable, "quotas", "the jobs of namespace %q are being counted",
			h.namespace)
	}
}

// run makes the recounts that are wanted.
func (h *quotaHome) run() {
	for {
		h.mu.Lock()
		pause := h.ended + int64(recountEvery) - h.of.elapsed()
		h.mu.Unlock()
		if pause > 0 {
			select {
			case <-time.After(time.Duration(pause)):
			case <-h.of.partitions.life.Done():
			}
		}
		h.mu.Lock()
		r := h.next
		h.next = nil
		if r == nil {
			h.running = false
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()
		r.err = h.askAll()
		h.mu.Lock()
		h.ended = h.of.elapsed()
		h.mu.Unlock()
		close(r.done)
	}
}

// askAll is one recount.
func (h *quotaHome) askAll() error {
	ctx, cancel := context.WithTimeout(h.of.partitions.life, askWithin)
	defer cancel()
	return eachAtOnce(len(h.of.partitions.parts), func(i int) error {
		h.mu.Lock()
		stamp := h.ledger.Next(i)
		h.mu.Unlock()
		u, err := across(ctx, h.of.partitions, h.of.partitions.parts[i],
			message.CountUsage{Namespace: h.namespace, Stamp: stamp})
		if err != nil {
			return carillon.Errorf(carillon.Unavailable, "quotas",
				"what namespace %q has in partition %d is not known: %w", h.namespace, i, err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.ledger.Told(i, stamp, u)
		return nil
	})
}

// serveTakeChanges answers a node that is about to make changes.
func serveTakeChanges(ctx context.Context, p *partitionRunner,
	m message.TakeChanges) (message.Changes, error) {
	h, err := p.e.quotas.homes.home(ctx, p, m.Namespace)
	if err != nil {
		return message.Changes{}, err
	}
	rate, now := p.e.settings.inForce(m.Namespace).Quotas.Puts, p.e.elapsed()
	if rate.Count == 0 { // the node has not heard yet that the quota is lifted
		return message.Changes{N: m.N}, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if rate = rate.WithDefaults(); h.bucket == nil {
		h.bucket = ratebucket.New(rate, now)
	}
	n, after := quota.TakeChanges(h.bucket, rate, m.N, m.More, now)
	return message.Changes{N: n, After: int64(after)}, nil
}

// usage returns what a namespace has of what its quotas bound.
func (hs *quotaHomes) usage(ctx context.Context, namespace string) (*carillon.Usage, error) {
	h, err := hs.home(ctx, hs.partitions.ofNamespace(namespace), namespace)
	if err == nil {
		err = h.recount(ctx)
	}
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	used := h.ledger.Used()
	return &carillon.Usage{Jobs: used.Jobs, PayloadBytes: used.Bytes}, nil
}

// enforce has quotas that have just been set be in force everywhere: partitions count, and give up what room
// they have by the quotas before. What fails here is made up for when room is asked for.
func (hs *quotaHomes) enforce(ctx context.Context, namespace string) {
	ctx, cancel := context.WithTimeout(ctx, enforceWithin)
	defer cancel()
	if _, err := hs.usage(ctx, namespace); err != nil && !errors.Is(err, context.Canceled) {
		hs.partitions.log.Debug("quotas are not in force everywhere yet", "namespace", namespace, "error", err)
	}
}

// enforceWithin bounds how long a put of settings waits until its quotas are in force on all nodes.
const enforceWithin = 2 * time.Second
