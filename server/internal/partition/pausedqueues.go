package partition

import (
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// Home is the partition that keeps what there is once in the store: which queues are paused, API keys, what
// was told of nodes and queues, and how far webhooks have been told. So one node at a time is in charge of
// each, and one read finds all of it.
const Home = 0

// PausedQueues are the paused queues, as of the batch that is being filled: metadata records
// (store.KindQueue) whose key is a queue's String. The machine of another partition than Home has none.
type PausedQueues struct {
	out     *builder
	all     map[delivery.Queue]carillon.QueuePause
	written uint64 // the last batch that changes them
}

// DecodePausedQueues decodes metadata records of kind store.KindQueue.
func DecodePausedQueues(records []store.MetaRecord) (map[delivery.Queue]carillon.QueuePause, error) {
	all := make(map[delivery.Queue]carillon.QueuePause, len(records))
	for _, r := range records {
		q := delivery.ParseQueue(r.Key)
		pause, err := codec.DecodeQueuePause(r.Value)
		if err != nil {
			return nil, fmt.Errorf("%s queue %q of namespace %q: %w", q.Kind, q.Address, q.Namespace, err)
		}
		all[q] = pause
	}
	return all, nil
}

// Pause pauses a queue. If it is paused, it stays so since then, and a note that is not empty replaces its
// note.
func (p *PausedQueues) Pause(now int64, q delivery.Queue, note string) (carillon.QueuePause, error) {
	pause, paused := p.all[q]
	switch {
	case !paused && len(p.all) >= carillon.MaxPausedQueues:
		return pause, carillon.Errorf(carillon.ResourceExhausted, "name",
			"%d queues are paused already, which is the most: resume one first", len(p.all))
	case !paused:
		pause.Since = time.Unix(0, now).UTC()
	case note == "" || note == pause.Note:
		p.out.await(p.written) // it may not be durable yet
		return pause, nil
	}
	if note != "" {
		pause.Note = note
	}
	p.all[q] = pause
	p.write(q, codec.EncodeQueuePause(&pause))
	return pause, nil
}

// Resume ends the pause of a queue, and returns it; the zero value: it is not paused.
func (p *PausedQueues) Resume(q delivery.Queue) (ended carillon.QueuePause) {
	ended, paused := p.all[q]
	if !paused {
		p.out.await(p.written)
		return ended
	}
	delete(p.all, q)
	p.write(q, nil)
	return ended
}

func (p *PausedQueues) write(q delivery.Queue, value []byte) {
	p.out.write(store.MetaRecord{Kind: store.KindQueue, Key: q.String(), Value: value})
	p.written = p.out.seq
}
