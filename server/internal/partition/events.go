package partition

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// EventLog has what happens in the partition recorded: everything while somebody watches it, and always the
// types of events that webhooks ask for. An event is in the batch of what it tells, so it is neither lost nor
// untrue. The events of a batch are one record, or several if there are many (store.KindEvents); the records
// are numbered. One record of kind store.KindWatched says until when everything is recorded and which records
// are kept:
//
//	      oldest    floor             last
//	...     |         |                 |
//	deleted | to be   | kept: nothing   | not durable yet, or
//	        | deleted | after the floor | nothing has happened
//	        |         | is missing      |
//
// The floor moves when old records are deleted. Whoever goes on from a record below it would miss something,
// and is refused. When somebody watches again after a while without, a record without events says that not
// everything was recorded before it (store.EventList.Unrecorded): a watch of everything that comes to it has
// missed something. That of webhooks, which ask for some types only, has not.
type EventLog struct {
	out    *builder
	most   uint64                        // events kept
	wanted func(carillon.EventType) bool // whether webhooks ask for events of a type, or, of "", for any

	state   store.Watched   // as of the batch being filled
	open    store.EventMark // the records since the last mark
	kept    uint64          // events in marks
	filling []store.Event   // of the batch being filled
	begins  uint64          // the number of a record to be written without events; 0: none
	changed bool            // state must be written
	damaged error           // why state could not be read; nil: it could
}

// Bounds on an event log.
const (
	// EventsFor is how long a watcher may be away, and how long events are kept.
	EventsFor = 10 * time.Minute
	// WebhooksFor is how long they are kept if there are webhooks.
	WebhooksFor = 24 * time.Hour
	// DefaultEventsMost is how many events of a partition are kept.
	DefaultEventsMost = 10_000

	watchedLonger   = time.Minute // the least by which the time is extended for which events are recorded
	eventsPerRecord = 128
	// eventsPerMark is how many events have a mark in common, at least: so many are deleted at once, and at
	// most so many records are read at takeover.
	eventsPerMark = 128
	maxEventError = 1 << 10 // bytes of an event's error
)

func newEventLog(out *builder, cfg *Config) *EventLog {
	return &EventLog{out: out, most: uint64(cfg.EventsMost), wanted: cfg.Wanted}
}

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
		l.wanted = func(carillon.EventType) bool { return false }
		return fmt.Errorf("who watches: %w", l.damaged)
	}
	for _, m := range l.state.Marks {
		l.kept += m.Events
	}
	for _, r := range events {
		list, err := codec.DecodeEvents(r.Value)
		at := now // of a damaged record, whose readers get the error, or of one without events
		if n := len(list.List); err == nil && n > 0 {
			at = list.List[n-1].Time
		}
		l.count(EventNumber(r.Key), len(list.List), at)
	}
	return nil
}

// Watch has everything recorded for another EventsFor from now on. The answer is the number of the newest
// record: what happens from now on is in those after it, once the batch that [Machine.After] names is
// durable. With again, somebody watches already, and nothing is written if that was said not long ago.
func (l *EventLog) Watch(now int64, again bool) (uint64, error) {
	if l.damaged != nil {
		return 0, carillon.Errorf(carillon.DataLoss, "", "the record of who watches is damaged: %w", l.damaged)
	}
	if !l.watched(now) {
		l.begins = l.state.Last + 1
		l.count(l.begins, 0, now)
		l.state.Whole = l.begins
	}
	until := now + int64(EventsFor)
	if again && l.state.Until > until-int64(watchedLonger) {
		return l.state.Last, nil
	}
	l.state.Until = max(l.state.Until, until)
	l.changed = true
	l.out.await(l.out.seq)
	return l.state.Last, nil
}

// watched reports whether somebody watches everything, or may come back.
func (l *EventLog) watched(now int64) bool { return now < l.state.Until }

// on reports whether events of a type are recorded.
func (l *EventLog) on(now int64, t carillon.EventType) bool { return l.watched(now) || l.wanted(t) }

// add records an event with the batch that is being filled. The caller has asked on. What happens to a job
// that sends an event to a webhook is for watchers alone.
func (l *EventLog) add(now int64, e store.Event) {
	if !l.watched(now) && strings.HasPrefix(e.Key.Name, carillon.EventJobs) {
		return
	}
	e.Time, e.Error = now, clipped(e.Error, maxEventError)
	l.filling = append(l.filling, e)
	l.changed = l.changed || l.state.Last == 0 // so that the next owner looks for records
	l.out.await(l.out.seq)
}

// unchanged reports whether seal would write nothing.
func (l *EventLog) unchanged() bool { return len(l.filling) == 0 && !l.changed }

// seal has what was added written, and some of what is too old deleted.
func (l *EventLog) seal() {
	if l.begins > 0 {
		l.out.small = append(l.out.small, store.MetaRecord{Kind: store.KindEvents, Key: EventKey(l.begins),
			Value: codec.AppendEvents(nil, &store.EventList{Unrecorded: true})})
		l.begins = 0
	}
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

// Sweep deletes some of the events that are too old or too many. The engine calls it now and then.
func (l *EventLog) Sweep(now int64) {
	if l.open.Last > 0 && !l.watched(now) && !l.wanted("") {
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
	m, keep := l.state.Marks[0], EventsFor
	if l.wanted("") {
		keep = WebhooksFor
	}
	if m.Time > now-int64(keep) && l.kept <= l.most {
		return
	}
	for n := max(1, l.state.Oldest); n <= m.Last; n++ {
		l.out.small = append(l.out.small, store.MetaRecord{Kind: store.KindEvents, Key: EventKey(n)})
	}
	l.state.Marks = slices.Clone(l.state.Marks[1:])
	l.kept -= m.Events
	l.state.Oldest, l.state.Floor, l.changed = m.Last+1, max(l.state.Floor, m.Last), true
}
