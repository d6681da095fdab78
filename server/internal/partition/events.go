package partition

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// EventLog has what happens in the partition recorded while somebody watches it. An event is in the batch of
// what it tells, so it is neither lost nor untrue. The events of a batch are one record, or several if there
// are many (store.KindEvents); the records are numbered. One record of kind store.KindWatched says until when
// events are recorded and which records are kept:
//
//	      oldest    floor             last
//	...     |         |                 |
//	deleted | to be   | kept: nothing   | not durable yet, or
//	        | deleted | after the floor | nothing has happened
//	        |         | is missing      |
//
// The floor moves when old records are deleted, or when events were not recorded for a while because nobody
// watched. Whoever goes on from a record below it would miss something, and is refused.
type EventLog struct {
	out  *builder
	most uint64 // events kept

	state   store.Watched   // as of the batch being filled
	open    store.EventMark // the records since the last mark
	kept    uint64          // events in marks
	filling []store.Event   // of the batch being filled
	changed bool            // state must be written
	damaged error           // why state could not be read; nil: it could
}

// Bounds on an event log.
const (
	// EventsFor is how long a watcher may be away, and how long events are kept.
	EventsFor = 10 * time.Minute
	// DefaultEventsMost is how many events of a partition are kept.
	DefaultEventsMost = 10_000

	watchedLonger   = time.Minute // the least by which the time is extended for which events are recorded
	eventsPerRecord = 128
	// eventsPerMark is how many events have a mark in common, at least: so many are deleted at once, and at
	// most so many records are read at takeover.
	eventsPerMark = 128
	maxEventError = 1 << 10 // bytes of an event's error
)

func newEventLog(out *builder, most uint64) *EventLog { return &EventLog{out: out, most: most} }

// EventKey returns the key of the n-th record of events.
func EventKey(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

// EventNumber returns the number of a record of events; 0 if the key is none.
func EventNumber(key string) uint64 {
	if len(key) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64([]byte(key))
}

// ReadWatched decodes the record of kind store.KindWatched; it is the zero value if there is none.
func ReadWatched(records []store.MetaRecord) (store.Watched, error) {
	if len(records) == 0 {
		return store.Watched{}, nil
	}
	return codec.DecodeWatched(records[0].Value)
}

// AfterMarks selects the records of events that have no mark yet.
func AfterMarks(w *store.Watched) store.MetaQuery {
	q := store.MetaQuery{Kind: store.KindEvents}
	if n := len(w.Marks); n > 0 {
		q.After = EventKey(w.Marks[n-1].Last)
	}
	return q
}

// load takes the records, at takeover: that of kind store.KindWatched, and those of AfterMarks.
// If the first one is damaged, no events are recorded.
func (l *EventLog) load(watched, events []store.MetaRecord, now int64) error {
	l.state, l.damaged = ReadWatched(watched)
	if l.damaged != nil {
		return fmt.Errorf("who watches: %w", l.damaged)
	}
	for _, m := range l.state.Marks {
		l.kept += m.Events
	}
	for _, r := range events {
		list, err := codec.DecodeEvents(r.Value)
		if err != nil {
			list.List = []store.Event{{Time: now}} // whoever reads it gets the error
		}
		if n := len(list.List); n > 0 {
			l.count(EventNumber(r.Key), n, list.List[n-1].Time)
		}
	}
	return nil
}

// Watch has events recorded for another EventsFor from now on. The answer is the number of the newest record:
// what happens from now on is in those after it, once the batch that [Machine.After] names is durable. With
// again, somebody watches already; the answer is then the number after which nothing is missing.
func (l *EventLog) Watch(now int64, again bool) (uint64, error) {
	if l.damaged != nil {
		return 0, carillon.Errorf(carillon.DataLoss, "", "the record of who watches is damaged: %w", l.damaged)
	}
	if !l.on(now) {
		l.state.Last++ // no record has this number: whoever goes on from one before it has missed something
		l.state.Floor = l.state.Last
	}
	until := now + int64(EventsFor)
	if again && l.on(now) && l.state.Until > until-int64(watchedLonger) {
		return l.state.Floor, nil
	}
	l.state.Until = max(l.state.Until, until)
	l.changed = true
	l.out.await(l.out.seq)
	if again {
		return l.state.Floor, nil
	}
	return l.state.Last, nil
}

// on reports whether somebody watches, or may come back.
func (l *EventLog) on(now int64) bool { return now < l.state.Until }

// add records an event with the batch that is being filled. The caller has asked on.
func (l *EventLog) add(now int64, e store.Event) {
	e.Time, e.Error = now, clipped(e.Error, maxEventError)
	l.filling = append(l.filling, e)
	l.out.await(l.out.seq)
}

// unchanged reports whether seal would write nothing.
func (l *EventLog) unchanged() bool { return len(l.filling) == 0 && !l.changed }

// seal has what was added written, and some of what is too old deleted.
func (l *EventLog) seal() {
	for part := range slices.Chunk(l.filling, eventsPerRecord) {
		n := l.state.Last + 1
		l.out.small = append(l.out.small, store.MetaRecord{Kind: store.KindEvents, Key: EventKey(n),
			Value: codec.AppendEvents(nil, &store.EventList{List: part})})
		l.count(n, len(part), part[len(part)-1].Time)
	}
	if n := len(l.filling); n > 0 {
		l.trim(l.filling[n-1].Time)
		l.filling = recycle(l.filling)
	}
	if l.changed {
		l.changed = false
		l.out.small = append(l.out.small, store.MetaRecord{Kind: store.KindWatched,
			Value: codec.AppendWatched(nil, &l.state)})
	}
}

// count counts the record with number n, the newest.
func (l *EventLog) count(n uint64, events int, at int64) {
	l.state.Last, l.open.Last, l.open.Time = n, n, at
	if l.open.Events += uint64(events); l.open.Events >= eventsPerMark {
		l.mark()
	}
}

// mark ends the newest mark.
func (l *EventLog) mark() {
	l.state.Marks = append(slices.Clip(l.state.Marks), l.open)
	l.kept += l.open.Events
	l.open, l.changed = store.EventMark{}, true
}

// Sweep deletes some of the events that are older than EventsFor or too many. The engine calls it now and
// then.
func (l *EventLog) Sweep(now int64) {
	if !l.on(now) && l.open.Events > 0 {
		l.mark()
	}
	if l.trim(now); l.changed {
		l.out.await(l.out.seq)
	}
}

// trim deletes the records of the oldest mark if they are too old, or there are too many.
func (l *EventLog) trim(now int64) {
	if len(l.state.Marks) == 0 {
		return
	}
	m := l.state.Marks[0]
	if m.Time > now-int64(EventsFor) && l.kept <= l.most {
		return
	}
	for n := max(1, l.state.Oldest); n <= m.Last; n++ {
		l.out.small = append(l.out.small, store.MetaRecord{Kind: store.KindEvents, Key: EventKey(n)})
	}
	l.state.Marks = slices.Clone(l.state.Marks[1:])
	l.kept -= m.Events
	l.state.Oldest, l.state.Floor, l.changed = m.Last+1, max(l.state.Floor, m.Last), true
}
