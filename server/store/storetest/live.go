package storetest

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

var liveCases = []Case{
	{Name: "live/finds the record of an unfinished run", check: liveFinds},
	{Name: "live/every part of the identity counts", check: liveIdentity},
	{Name: "live/a rewrite replaces the entry", check: liveRewrite},
	{Name: "live/a run moves from one record to another", check: liveMoves},
}

// wantLive checks which record a run leads to.
func (s shard) wantLive(what string, id store.RunID, want store.Ref) {
	s.Helper()
	if ref, ok := s.live(id); !ok || ref != want {
		s.Errorf("%s: Live = %v, %v, want %v", what, ref, ok, want)
	}
}

// wantNotLive checks that a run leads nowhere.
func (s shard) wantNotLive(what string, id store.RunID) {
	s.Helper()
	if ref, ok := s.live(id); ok || ref != (store.Ref{}) {
		s.Errorf("%s: Live = %v, %v, want none", what, ref, ok)
	}
}

func liveFinds(e *env) {
	s := e.own(3)
	var all []store.Record
	for i, name := range oddNames {
		all = append(all, job(name, running(base, carillon.CauseSchedule, 0)),
			pending(name, uint64(i+1), running(base, carillon.CauseTrigger, uint64(i+1))))
	}
	s.put(all...)
	for _, r := range all {
		s.wantLive(r.Name, r.State.Identity(3), r.Ref)
	}
	idle := job("idle", running(base, carillon.CauseSchedule, 0))
	idle.State.Run.Live = false
	s.put(idle)
	s.wantNotLive("a run that is not live", idle.State.Identity(3))
}

func liveIdentity(e *env) {
	s := e.own(3)
	a := job("a", running(base, carillon.CauseTrigger, 7))
	s.put(a)
	right := a.State.Identity(3)
	s.wantLive("the run", right, a.Ref)
	for what, wrong := range map[string]store.RunID{
		"partition": {Partition: 4, UID: right.UID, Scheduled: base, Cause: carillon.CauseTrigger, Seq: 7},
		"uid":       {Partition: 3, UID: uidOf(a.Key, 2), Scheduled: base, Cause: carillon.CauseTrigger, Seq: 7},
		"scheduled": {Partition: 3, UID: right.UID, Scheduled: base + 1, Cause: carillon.CauseTrigger, Seq: 7},
		"cause":     {Partition: 3, UID: right.UID, Scheduled: base, Cause: carillon.CauseBackfill, Seq: 7},
		"seq":       {Partition: 3, UID: right.UID, Scheduled: base, Cause: carillon.CauseTrigger, Seq: 8},
	} {
		s.wantNotLive("another "+what, wrong)
	}
}

func liveRewrite(e *env) {
	s := e.own(3)
	first, second := job("a", running(base, 0, 0)), job("a", running(base+1, 0, 0), stateOnly)
	s.put(first)
	s.put(second)
	s.wantNotLive("the run before", first.State.Identity(3))
	s.wantLive("the run", second.State.Identity(3), second.Ref)
	s.put(job("a", stateOnly))
	s.wantNotLive("the run that ended", second.State.Identity(3))
	s.put(first)
	s.wantLive("the run that is back", first.State.Identity(3), first.Ref)
	s.delete(first.Ref)
	s.wantNotLive("the run of a deleted job", first.State.Identity(3))
}

// liveMoves: an overlapping run is parked in a record of its own, under the same id, in the same batch in
// which its job goes on to the next; whichever of the two records comes first.
func liveMoves(e *env) {
	s := e.own(3)
	a := job("a", running(base, 0, 0), due(base))
	id := a.State.Identity(3)
	moved, next := pending("a", 1, running(base, 0, 0), due(base)), job("a", running(base+9, 0, 0), due(base+9))
	for _, order := range [][]store.Record{{moved, next}, {next, moved}} {
		s.put(a)
		s.wantLive("before", id, a.Ref)
		s.put(order...)
		s.wantLive("moved away", id, moved.Ref)
		s.wantLive("the next run", next.State.Identity(3), next.Ref)
		s.apply(store.Batch{Puts: []store.Record{a}, Deletes: []store.Ref{moved.Ref}})
		s.wantLive("moved back", id, a.Ref)
		s.wantNotLive("the next run, taken back", next.State.Identity(3))
	}
}
