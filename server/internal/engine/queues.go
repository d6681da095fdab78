package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// queues pauses, resumes and purges queues, and tells the dispatcher which ones are paused. That is kept in
// one partition for the whole store (partition.Home). A node reads it from the store, whoever owns that
// partition:
//
//   - before partitions that it has claimed hand anything out. So whoever is told of no pause, because it is
//     no member and owner yet, reads of it.
//   - when it is told of a change (ReloadQueues).
//   - every settingsEvery, in case it was not.
type queues struct {
	partitions *partitions
	log        *slog.Logger
	// The dispatcher's; see there.
	setPaused func([]delivery.Queue)
	also      atomic.Pointer[func(context.Context) error] // read with them, see AlsoReload

	reading turn          // held while they are read
	begun   atomic.Uint64 // how often a read has begun
	err     error         // how the last one ended; guarded by reading

	paused atomic.Pointer[map[delivery.Queue]carillon.QueuePause] // as of the last read; not changed
}

func newQueues(ps *partitions, log *slog.Logger) *queues {
	return &queues{partitions: ps, log: log, reading: newTurn()}
}

// PausedQueues returns the queues that are paused, as far as this node knows. The map must not be changed.
func (qs *queues) PausedQueues() map[delivery.Queue]carillon.QueuePause {
	if known := qs.paused.Load(); known != nil {
		return *known
	}
	return nil
}

// ReloadQueues reads which queues are paused. Once it has returned nil, this node hands out nothing of those
// that were paused when it was called. One read serves all who came before it began.
func (qs *queues) ReloadQueues(ctx context.Context) error {
	err := qs.readOnce(ctx)
	if also := qs.also.Load(); also != nil {
		err = errors.Join(err, (*also)(ctx))
	}
	return err
}

// readOnce reads which queues are paused, and nothing else.
func (qs *queues) readOnce(ctx context.Context) error {
	begun := qs.begun.Load()
	qs.reading.take()
	defer qs.reading.give()
	if qs.begun.Load() > begun {
		return qs.err
	}
	qs.begun.Add(1)
	qs.err = qs.read(ctx)
	return qs.err
}

// AlsoReload has what else this node must read, when another has changed it, read with the paused queues.
func (qs *queues) AlsoReload(f func(context.Context) error) { qs.also.Store(&f) }

// read is readOnce for a caller that holds reading: what is read later is newer.
func (qs *queues) read(ctx context.Context) error {
	records, err := AllMetaRecords(ctx, qs.partitions.shards[partition.Home],
		store.MetaQuery{Kind: store.KindQueue})
	if err != nil {
		return readError(err)
	}
	paused, err := partition.DecodePausedQueues(records)
	if err != nil {
		return readError(err)
	}
	if !maps.Equal(paused, qs.PausedQueues()) {
		qs.setPaused(slices.SortedFunc(maps.Keys(paused), delivery.Queue.Compare))
		qs.paused.Store(&paused)
	}
	return nil
}

// beforeTerms is readOnce for partitions that have been claimed. If the store has lost what is to be
// read, their runs go on: to stop all of them would be worse than to run those of a queue that was paused.
func (qs *queues) beforeTerms(ctx context.Context) error {
	err := qs.readOnce(ctx)
	if errors.Is(err, store.ErrDamaged) {
		qs.log.Error("the store has lost which queues are paused: runs of such queues may be handed out",
			"error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("paused queues: %w", err)
	}
	return nil
}

// queueOf returns the queue that a caller means.
func queueOf(key carillon.QueueKey) (delivery.Queue, error) {
	key.Namespace, key.Kind = namespaceOf(key.Namespace), cmp.Or(key.Kind, "worker")
	q := delivery.Queue{Namespace: key.Namespace, Kind: key.Kind, Address: key.Name}
	if q.Kind == "http" {
		q.Address = strings.ToLower(q.Address) // as delivery.QueueOf has it
	}
	return q, key.Validate()
}

// PauseQueue makes a pause of a queue durable; see [carillon.Queues]. The caller has the nodes told of it.
func (qs *queues) PauseQueue(ctx context.Context, key carillon.QueueKey,
	note string) (carillon.QueuePause, error) {
	return qs.change(ctx, key, message.PauseQueue{Paused: true, Note: note})
}

// ResumeQueue makes the end of a pause durable, and returns the pause; see [carillon.Queues]. The caller has
// the nodes told of it.
func (qs *queues) ResumeQueue(ctx context.Context, key carillon.QueueKey) (carillon.QueuePause, error) {
	return qs.change(ctx, key, message.PauseQueue{})
}

func (qs *queues) change(ctx context.Context, key carillon.QueueKey,
	m message.PauseQueue) (pause carillon.QueuePause, err error) {
	if m.Queue, err = queueOf(key); err != nil {
		return pause, err
	}
	if err := (&carillon.QueuePause{Note: m.Note}).Validate(); err != nil {
		return pause, err
	}
	return across(ctx, qs.partitions, qs.partitions.parts[partition.Home], m)
}

func servePauseQueue(ctx context.Context, p *partitionRunner, m message.PauseQueue) (any, error) {
	if p.number != partition.Home {
		return nil, carillon.Errorf(carillon.Internal, "partition", "%d does not keep which queues are paused",
			p.number)
	}
	c := changing(ctx, call{})
	return inRound(ctx, p, c, func(p *partitionRunner, now int64) (carillon.QueuePause, error) {
		if !m.Paused {
			return p.m.PausedQueues.Resume(m.Queue), nil
		}
		return p.m.PausedQueues.Pause(now, m.Queue, m.Note)
	})
}
