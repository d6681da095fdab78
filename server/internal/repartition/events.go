package repartition

import (
	"context"
	"fmt"
	"sync"

	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// owed are the events that webhooks have not been told yet. Each goes to the partition of its job. Records of
// events are numbered by partition, and an event's id is made of both: so the numbers go on above all that
// there were. Who watches begins again.
type owed struct {
	base     uint64             // the greatest number of a record, of all partitions
	position partition.Position // that webhooks have come to; nil: none
	hooks    *store.MetaRecord  // which says so

	mu   sync.Mutex
	logs map[int]*eventLog // by new partition
}

// eventLog is what there is of a new partition.
type eventLog struct {
	mu      sync.Mutex
	filling []store.Event
	state   store.Watched
	newest  int64
}

// eventsPerRecord is how many events a record has, at most.
const eventsPerRecord = 128

// survey reads how far the events have come, and who was told.
func (o *owed) survey(r *store.MetaRecord, h transfer.Head) error {
	switch r.Kind {
	case store.KindEvents:
		o.base = max(o.base, partition.EventNumber(r.Key))
	case store.KindWatched:
		w, err := codec.DecodeWatched(r.Value)
		if err != nil {
			return err
		}
		o.base = max(o.base, w.Last)
	case store.KindWebhooks:
		hooks := *r
		o.hooks = &hooks
		if len(r.Value) == 0 {
			return nil
		}
		pos, err := partition.ParsePosition(string(r.Value), h.MACKey)
		if err == nil && len(pos) != h.Partitions {
			err = fmt.Errorf("it is a position of %d partitions, and the store has %d", len(pos), h.Partitions)
		}
		o.position = pos
		return err
	}
	return nil
}

// log returns the log of a new partition.
func (o *owed) log(q int) *eventLog {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.logs == nil {
		o.logs = map[int]*eventLog{}
	}
	l := o.logs[q]
	if l == nil {
		l = &eventLog{state: store.Watched{Last: o.base, Floor: o.base, Oldest: o.base + 1, Whole: o.base}}
		o.logs[q] = l
	}
	return l
}

// event moves the events of a record that are owed.
func (m *move) event(ctx context.Context, p int, r *store.MetaRecord) error {
	if m.events.position == nil || partition.EventNumber(r.Key) <= m.events.position[p] {
		return nil
	}
	list, err := codec.DecodeEvents(r.Value)
	if err != nil {
		return damaged(p, r, err)
	}
	for _, e := range list.List {
		q := partition.Home // of a queue or a node
		if e.Key.Name != "" {
			q = store.PartitionOf(e.Key, m.n)
		}
		e.Run = idIn(e.Run, m.n)
		if err := m.owe(ctx, q, e); err != nil {
			return err
		}
	}
	return nil
}

// owe adds an event to those of a new partition.
func (m *move) owe(ctx context.Context, q int, e store.Event) error {
	l := m.events.log(q)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.filling = append(l.filling, e)
	l.newest = max(l.newest, e.Time)
	if len(l.filling) < eventsPerRecord {
		return nil
	}
	return m.endRecord(ctx, q, l)
}

// endRecord writes the record that is being filled.
func (m *move) endRecord(ctx context.Context, q int, l *eventLog) error {
	l.state.Last++
	r := store.MetaRecord{Kind: store.KindEvents, Key: partition.EventKey(l.state.Last),
		Value: codec.AppendEvents(nil, &store.EventList{List: l.filling})}
	l.state.Marks = append(l.state.Marks, store.EventMark{Last: l.state.Last, Events: uint64(len(l.filling)),
		Time: l.newest})
	l.filling = nil
	return m.out.meta(ctx, q, &r)
}

// endEvents writes what is left, and how far each log has come.
func (m *move) endEvents(ctx context.Context) error {
	if m.events.base > 0 {
		for q := range m.n {
			l := m.events.log(q)
			if len(l.filling) > 0 {
				if err := m.endRecord(ctx, q, l); err != nil {
					return err
				}
			}
			r := store.MetaRecord{Kind: store.KindWatched, Value: codec.AppendWatched(nil, &l.state)}
			if err := m.out.meta(ctx, q, &r); err != nil {
				return err
			}
		}
	}
	if m.events.hooks == nil {
		return nil
	}
	r := *m.events.hooks
	if m.events.position != nil {
		pos := make(partition.Position, m.n)
		for q := range pos {
			pos[q] = m.events.base
		}
		r.Value = []byte(pos.Token(m.from.Head().MACKey))
	}
	return m.out.meta(ctx, partition.Home, &r)
}
