package partition_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// eventRecords returns the records of events in the store that the query selects.
func (r *rig) eventRecords(q store.MetaQuery) []store.MetaRecord {
	q.Limit = 100_000
	records, err := r.shard.MetaRecords(context.Background(), q)
	if err != nil {
		r.t.Fatal(err)
	}
	return records
}

// watched returns what the store says of who watches.
func (r *rig) watched() *store.Watched {
	w, err := partition.ReadWatched(r.small(store.KindWatched))
	if err != nil {
		r.t.Fatal(err)
	}
	return &w
}

// watch begins to watch, and returns the number of the newest record.
func (r *rig) watch() uint64 {
	r.t.Helper()
	r.m.Begin()
	n, err := r.m.Events.Watch(r.now, false)
	if err != nil {
		r.t.Fatal(err)
	}
	r.flush()
	if w := r.watched(); w.Until <= r.now || w.Floor > n {
		r.t.Fatalf("durable after Watch: %+v, which answered %d", w, n)
	}
	return n
}

// events returns the events after a record.
func (r *rig) events(after uint64) (all []store.Event) {
	r.t.Helper()
	for _, m := range r.eventRecords(store.MetaQuery{Kind: store.KindEvents, After: partition.EventKey(after)}) {
		if n := partition.EventNumber(m.Key); n != after+1 {
			r.t.Fatalf("record %d comes after %d", n, after)
		}
		after++
		list, err := codec.DecodeEvents(m.Value)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, list.List...)
	}
	return all
}

// wantEvents checks the types of the events after a record.
func (r *rig) wantEvents(after uint64, want ...carillon.EventType) []store.Event {
	r.t.Helper()
	got := r.events(after)
	types := make([]carillon.EventType, len(got))
	for i, e := range got {
		types[i] = e.Type
	}
	if !slices.Equal(types, want) {
		r.t.Fatalf("events %v, want %v", types, want)
	}
	return got
}

func TestNothingIsRecordedWhileNobodyWatches(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a"})
	r.succeed(r.deliver(1)[0])
	r.m.Events.Sweep(r.now)
	r.flush()
	if n := len(r.eventRecords(store.MetaQuery{Kind: store.KindEvents})) + len(r.small(store.KindWatched)); n != 0 {
		t.Errorf("%d records", n)
	}
}

func last[T any](s []T) T { return s[len(s)-1] }

func TestAWatchEndsByItself(t *testing.T) {
	r := newRig(t, partition.Config{})
	from := r.watch()
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1000h"})
	r.now += int64(partition.EventsFor) - 1
	r.mustPut(carillon.Job{Name: "b", Schedule: "@every 1000h"})
	r.wantEvents(from, carillon.EventJobCreated, carillon.EventJobCreated)
	r.now++
	r.mustPut(carillon.Job{Name: "c", Schedule: "@every 1000h"})
	r.wantEvents(from, carillon.EventJobCreated, carillon.EventJobCreated)

	for range 3 {
		r.now += int64(partition.EventsFor)
		r.m.Events.Sweep(r.now)
		r.flush()
	}
	if got := r.events(from); len(got) != 0 {
		t.Errorf("kept: %v", got)
	}
	again := r.watch()
	if w := r.watched(); again <= from+2 || w.Whole != again {
		t.Errorf("the next watch begins at %d of %+v: whoever goes on from %d would not see what is missing",
			again, w, from+2)
	}
	r.mustPut(carillon.Job{Name: "d", Schedule: "@every 1000h"})
	r.wantEvents(again, carillon.EventJobCreated)
}

func TestARenewalIsRarelyWritten(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.watch()
	for range 59 {
		r.now += int64(time.Second)
		r.m.Begin()
		if _, err := r.m.Events.Watch(r.now, true); err != nil || r.m.After() != 0 {
			t.Fatalf("waits for batch %d, %v", r.m.After(), err)
		}
	}
	r.now += int64(time.Second)
	r.m.Begin()
	if _, err := r.m.Events.Watch(r.now, true); err != nil || r.m.After() == 0 {
		t.Fatalf("not written: %v", err)
	}
}

func TestOldEventsAreDeletedAndTheFloorSaysSo(t *testing.T) {
	const most = 1000
	r := newRig(t, partition.Config{EventsMost: most})
	from := r.watch()
	for i := range 3 * most {
		if i%7 == 0 {
			r.mustPut(carillon.Job{Name: fmt.Sprint("x", i), Schedule: "@every 1000h"})
			continue
		}
		if _, err := r.put(carillon.Job{Name: fmt.Sprint("x", i), Schedule: "@every 1000h"}); err != nil {
			t.Fatal(err)
		}
	}
	r.flush()
	w := r.watched()
	all := r.eventRecords(store.MetaQuery{Kind: store.KindEvents})
	if w.Floor <= from || w.Oldest != w.Floor+1 || partition.EventNumber(all[0].Key) != w.Oldest {
		t.Fatalf("%+v, the first record is %d", w, partition.EventNumber(all[0].Key))
	}
	if n := len(r.events(w.Floor)); n < most-256 || n > most+256 {
		t.Errorf("%d events are kept, of at most about %d", n, most)
	}
	floor := w.Floor
	r.now += int64(partition.EventsFor)
	for range 100 {
		r.m.Events.Sweep(r.now)
		r.flush()
	}
	if n := len(r.events(r.watched().Floor)); n > 256 || r.watched().Floor <= floor {
		t.Errorf("%d events are kept that are too old", n)
	}
}

// TestEventsGoOnAfterATakeover: whatever was durable stays, what was not comes again under the same number or
// not at all, and no number is left out.
func TestEventsGoOnAfterATakeover(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(rt, partition.Config{EventsMost: 300})
		r.watch()
		var jobs []string // whose event must be there, in order
		for i := range rapid.IntRange(1, 400).Draw(rt, "jobs") {
			name := fmt.Sprint("j", i)
			if _, err := r.put(carillon.Job{Name: name, Schedule: "@every 1000h"}); err != nil {
				rt.Fatal(err)
			}
			switch rapid.IntRange(0, 9).Draw(rt, "then") {
			case 0:
				r.start() // what was put since the last batch is lost
				jobs = stored(r, jobs)
				if r.jobExists(name) {
					rt.Fatalf("%s is stored, though its batch was not applied", name)
				}
				continue
			case 1, 2, 3:
				r.flush()
			}
			jobs = append(jobs, name)
		}
		r.flush()
		r.start()
		got := r.events(r.watched().Floor)
		for i := range got {
			if want := jobs[len(jobs)-len(got)+i]; got[i].Key.Name != want {
				rt.Fatalf("event %d of %d is of %s, want %s", i, len(got), got[i].Key.Name, want)
			}
		}
		if len(got) < min(len(jobs), 300-256) {
			rt.Fatalf("%d events of %d", len(got), len(jobs))
		}
	})
}

// stored returns those of the jobs that are in the store.
func stored(r *rig, jobs []string) []string {
	return slices.DeleteFunc(jobs, func(name string) bool { return !r.jobExists(name) })
}

func (r *rig) jobExists(name string) bool {
	return r.read([]store.Ref{{Key: keyOf(name)}})[0].Exists
}

// TestWebhooksHaveTheirTypesRecorded while nobody watches, for longer; what is recorded when somebody watches
// after that says that not everything was before.
func TestWebhooksHaveTheirTypesRecorded(t *testing.T) {
	wanted := true
	r := newRig(t, partition.Config{Wanted: func(e carillon.EventType) bool {
		return wanted && (e == "" || e == carillon.EventJobDeleted)
	}})
	change := func(name string) {
		t.Helper()
		r.mustPut(carillon.Job{Name: name, Schedule: "@every 1000h"})
		r.m.Begin()
		r.bring(keyOf(name))
		if _, err := r.m.Jobs.Delete(r.now, keyOf(name)); err != nil {
			t.Fatal(err)
		}
		r.flush()
	}
	change("a")
	change(carillon.EventJobs + "w/1-1-0") // no webhook is told of it
	r.wantEvents(0, carillon.EventJobDeleted)
	from := r.watch()
	marker := r.eventRecords(store.MetaQuery{Kind: store.KindEvents, After: partition.EventKey(from - 1)})
	if list, err := codec.DecodeEvents(marker[0].Value); err != nil || !list.Unrecorded || len(list.List) != 0 {
		t.Errorf("the watch begins with %+v, %v", list, err)
	}
	if w := r.watched(); w.Whole != from || w.Floor != 0 {
		t.Errorf("%+v: webhooks miss nothing, a watch from before %d does", w, from)
	}
	change("b")
	r.start()
	r.now += int64(partition.EventsFor)
	change("c")
	for range 200 { // so many that some could be deleted
		change("d")
	}
	for range 5 {
		r.now += int64(partition.EventsFor)
		r.m.Events.Sweep(r.now)
		r.flush()
	}
	got := r.wantEvents(0, append([]carillon.EventType{carillon.EventJobDeleted, carillon.EventJobCreated},
		slices.Repeat([]carillon.EventType{carillon.EventJobDeleted}, 202)...)...)
	if got[0].Key.Name != "a" || last(got).Key.Name != "d" {
		t.Errorf("from %+v to %+v", got[0], last(got))
	}
	wanted = false
	for range 5 {
		r.now += int64(partition.EventsFor)
		r.m.Events.Sweep(r.now)
		r.flush()
	}
	if n := len(r.eventRecords(store.MetaQuery{Kind: store.KindEvents})); n != 0 {
		t.Errorf("%d records are left that nobody wants", n)
	}
}
