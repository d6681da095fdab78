package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// recorded is a record of events of a partition.
type recorded struct {
	partition int
	number    uint64
	time      int64 // of the first event, UTC ns
	events    []carillon.Event
	// Before it, not everything was recorded; see [store.EventList].
	unrecorded bool
}

// position is, by partition, the number of the newest record that is over.
type position = partition.Position

// tokenOf encodes a position.
func (ps *partitions) tokenOf(pos position) string { return pos.Token(ps.macKey) }

// positionOf decodes a position.
func (ps *partitions) positionOf(token string) (position, error) {
	pos, err := partition.ParsePosition(token, ps.macKey)
	switch {
	case err != nil:
		return nil, carillon.Errorf(carillon.InvalidArgument, "position", "%v; give one back as it was", err)
	case len(pos) != len(ps.parts):
		return nil, carillon.Errorf(carillon.FailedPrecondition, "position", "it is of before the store moved from %d to "+
			"another number of partitions: list what there is, and watch again without a position", len(pos))
	}
	return pos, nil
}

// recordsAtOnce is how many records of events of a partition are read at once.
const recordsAtOnce = 128

// recordedAfter reads the next records of a partition after one; at most recordsAtOnce. If some are missing,
// the error is that of errGone.
func (ps *partitions) recordedAfter(ctx context.Context, p int, after uint64) ([]recorded, error) {
	records, err := ps.shards[p].MetaRecords(ctx, store.MetaQuery{Kind: store.KindEvents,
		After: partition.EventKey(after), Limit: recordsAtOnce})
	if err != nil {
		return nil, readError(err)
	}
	out := make([]recorded, 0, len(records))
	for _, r := range records {
		one, err := decodeRecorded(p, &r)
		if err != nil {
			return nil, readError(err)
		}
		if after++; one.number != after {
			return nil, errGone()
		}
		out = append(out, one)
	}
	return out, nil
}

// decodeRecorded decodes a record of events.
func decodeRecorded(p int, r *store.MetaRecord) (recorded, error) {
	out := recorded{partition: p, number: partition.EventNumber(r.Key)}
	list, err := codec.DecodeEvents(r.Value)
	if err != nil {
		return out, fmt.Errorf("events %d of partition %d: %w", out.number, p, err)
	}
	out.events, out.unrecorded = make([]carillon.Event, len(list.List)), list.Unrecorded
	for i := range list.List {
		out.events[i] = eventOf(&list.List[i])
		out.events[i].ID = fmt.Sprintf("%d-%d-%d", p, out.number, i)
	}
	if len(list.List) > 0 {
		out.time = list.List[0].Time
	}
	return out, nil
}

// eventOf returns an event as callers see it, without its id.
func eventOf(e *store.Event) carillon.Event {
	out := carillon.Event{
		Type: e.Type, Time: instant(e.Time), Namespace: e.Key.Namespace, Job: e.Key.Name,
		Generation: e.Generation, Attempt: e.Attempt, Reason: e.Reason, Error: e.Error,
		RetryAt: instant(e.RetryAt), Skipped: e.Skipped, From: instant(e.From), Late: time.Duration(e.Late),
		Queue: e.Queue, QueueKind: e.QueueKind, Node: e.Node,
	}
	if e.Run == (store.RunID{}) {
		return out
	}
	out.Scheduled = instant(e.Run.Scheduled)
	if e.Skipped == 0 {
		out.Run = e.Run.String()
	}
	return out
}

// eventBytes returns about how many bytes the events have.
func eventBytes(events []carillon.Event) (bytes int) {
	for i := range events {
		e := &events[i]
		bytes += len(e.Namespace) + len(e.Job) + len(e.Error) + len(e.Run) + len(e.Queue) + len(e.Node) + 100
	}
	return bytes
}

// instant returns ns as a time; the zero time for 0.
func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// merged returns records of several partitions about in the order of their times, and those of each in their
// order.
func merged(pages [][]recorded) []recorded {
	var all []recorded
	for _, page := range pages {
		newest := int64(0) // a clock that was set back does not change the order within a partition
		for i := range page {
			newest = max(newest, page[i].time)
			page[i].time = newest
		}
		all = append(all, page...)
	}
	slices.SortStableFunc(all, func(a, b recorded) int { return cmp.Compare(a.time, b.time) })
	return all
}
