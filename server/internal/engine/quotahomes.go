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
// in memory only: each term of a home begins again.
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

	recounts *shared // ask all partitions what they have, and take back the room that they have not used
	counts   *shared // ask what they have

	mu     sync.Mutex
	ledger *quota.Ledger
	bucket *ratebucket.Bucket
	has    message.Amount // by the last count
}

const (
	// recountEvery is the least pause between two recounts: a tenant that puts jobs for which there is no
	// room must not cost others anything.
	recountEvery = time.Second
	// countEvery is that of counts: who gets settings all the time must not either. It is less than
	// usageWithin, for which a get waits.
	countEvery = time.Second
)

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
		h = &quotaHome{of: hs, namespace: namespace, term: term,
			ledger: quota.NewLedger(term.Epoch, len(hs.partitions.parts))}
		h.recounts, h.counts = newShared(hs, recountEvery, h.recount), newShared(hs, countEvery, h.count)
		hs.all[namespace] = h
	}
	return h, nil
}

// changed has the home of a namespace whose settings have changed forget what it knows, if its quotas are
// lifted: from now on jobs come for which nobody asks.
func (hs *quotaHomes) changed(namespace string) {
	if n := hs.settings.get(namespace); n != nil && n.Quotas.Stores() {
		return
	}
	hs.mu.Lock()
	h := hs.all[namespace]
	hs.mu.Unlock()
	if h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.ledger.Forget()
	}
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
		if err := h.counted(ctx, h.recounts); err != nil {
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

// counted waits for a count, or a recount, that begins after the call.
func (h *quotaHome) counted(ctx context.Context, by *shared) error {
	err := by.wait(ctx)
	if err != nil && ctx.Err() != nil {
		return carillon.Errorf(carillon.Unavailable, "quotas", "the jobs of namespace %q are being counted",
			h.namespace)
	}
	return err
}

// recount is one recount.
func (h *quotaHome) recount() error {
	return h.inEach(func(ctx context.Context, i int) error {
		h.mu.Lock()
		stamp := h.ledger.Next(i)
		h.mu.Unlock()
		u, err := h.countIn(ctx, i, stamp)
		if err == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.ledger.Told(i, stamp, u)
		}
		return err
	})
}

// count is one count. The partitions keep what room they have.
func (h *quotaHome) count() error {
	all := make([]message.Usage, len(h.of.partitions.parts))
	err := h.inEach(func(ctx context.Context, i int) (err error) {
		all[i], err = h.countIn(ctx, i, message.Stamp{})
		return err
	})
	if err != nil {
		return err
	}
	var has message.Amount
	for i := range all {
		has = has.Plus(all[i].Used)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.has = has
	return nil
}

// inEach calls f for all partitions at once.
func (h *quotaHome) inEach(f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithTimeout(h.of.partitions.life, askWithin)
	defer cancel()
	return eachAtOnce(len(h.of.partitions.parts), func(i int) error { return f(ctx, i) })
}

// countIn asks a partition.
func (h *quotaHome) countIn(ctx context.Context, i int, stamp message.Stamp) (message.Usage, error) {
	u, err := across(ctx, h.of.partitions, h.of.partitions.parts[i],
		message.CountUsage{Namespace: h.namespace, Stamp: stamp})
	if err != nil {
		err = carillon.Errorf(carillon.Unavailable, "quotas",
			"what namespace %q has in partition %d is not known: %w", h.namespace, i, err)
	}
	return u, err
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

// usage returns what a namespace has of what its quotas bound; nil if not all partitions say so in time.
func (hs *quotaHomes) usage(ctx context.Context, namespace string) *carillon.Usage {
	ctx, cancel := context.WithTimeout(ctx, usageWithin)
	defer cancel()
	h, err := hs.home(ctx, hs.partitions.ofNamespace(namespace), namespace)
	if err == nil {
		err = h.counted(ctx, h.counts)
	}
	if err != nil {
		hs.partitions.log.Debug("what a namespace has is not known", "namespace", namespace, "error", err)
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return &carillon.Usage{Jobs: h.has.Jobs, PayloadBytes: h.has.Bytes}
}

// enforce has quotas that have just been set be in force everywhere: partitions count, and give up what room
// they have by the quotas before. What fails here is made up for when room is asked for.
func (hs *quotaHomes) enforce(ctx context.Context, namespace string) {
	ctx, cancel := context.WithTimeout(ctx, usageWithin)
	defer cancel()
	h, err := hs.home(ctx, hs.partitions.ofNamespace(namespace), namespace)
	if err == nil {
		err = h.counted(ctx, h.recounts)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		hs.partitions.log.Debug("quotas are not in force everywhere yet", "namespace", namespace, "error", err)
	}
}

// usageWithin bounds how long a put of settings waits until its quotas are in force on all nodes, and how
// long a get waits for what there is.
const usageWithin = 2 * time.Second
