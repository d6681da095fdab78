package partition

import (
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// waitFor returns the index of the wait for a job, -1 if there is none.
func waitFor(s *store.State, name string) int {
	return slices.IndexFunc(s.Waits, func(w store.Wait) bool { return w.Name == name })
}

// allOpen reports whether each job that s waits for has succeeded since the last run began.
func allOpen(s *store.State) bool {
	return !slices.ContainsFunc(s.Waits, func(w store.Wait) bool { return !w.Open })
}

// waitingFor returns the names of the jobs that have yet to succeed.
func waitingFor(s *store.State) []string {
	var names []string
	for i := range s.Waits {
		if !s.Waits[i].Open {
			names = append(names, s.Waits[i].Name)
		}
	}
	return names
}

// unwait ends the phase in which a due job waits for others. Its timer is then set again, possibly for now.
func unwait(s *store.State) {
	if s.Phase == carillon.PhaseWaiting {
		s.Phase = carillon.PhaseScheduled
	}
}

// closeWaits closes all waits because a run begins. That is written before the run is handed out; otherwise,
// after a crash, a newer run would begin on the same successes.
func (d *dueRuns) closeWaits(e *entry, now int64) {
	if len(e.state.Waits) > 0 {
		d.touch(e)
		e.state.Waits = withOpen(e.state.Waits, false)
		for i := range e.state.Waits {
			e.state.Waits[i].Since = now
		}
	}
}

// giveBack reopens the waits that a run had used up which has been taken back.
func giveBack(s *store.State) { s.Waits = withOpen(s.Waits, true) }

// withOpen returns the waits, opened or closed. A wait that was never told of a success stays closed. A batch
// may hold the old slice, so it is copied.
func withOpen(old []store.Wait, open bool) []store.Wait {
	waits := slices.Clone(old)
	for i := range waits {
		waits[i].Open = open && waits[i].By != (store.RunID{})
	}
	return waits
}

// released reports whether a scheduled run of a due job may begin as far as the jobs in its DependsOn are
// concerned. If not, the job waits in the store, where only a success or the end of its life wakes it.
func (rs *runs) released(e *entry, now int64) bool {
	s := &e.state
	switch {
	case allOpen(s):
		return true
	case s.Expires != 0 && now > s.Expires:
		rs.expireWaiting(e, now)
		return false
	case s.Phase != carillon.PhaseWaiting:
		rs.due.touch(e)
		s.Phase = carillon.PhaseWaiting
	}
	rs.agenda.rearm(e)
	return false
}

// expireWaiting ends the life of a due job whose dependencies have not succeeded in time.
func (rs *runs) expireWaiting(e *entry, now int64) {
	rs.skipLife(e, now, ReasonExpired)
	unwait(&e.state)
	rs.due.touch(e)
	rs.endOrRearm(e)
}

// newWaits returns the waits of a job that is put. Names that stay keep their old wait. fresh has what was
// found out for the put about the other names. With replace, a one-shot that begins again takes the fresh
// wait if that is open, so it may begin with successes of before.
func newWaits(now int64, after []string, old, fresh []store.Wait, replace bool) []store.Wait {
	var out []store.Wait
	for _, name := range after {
		named := func(w store.Wait) bool { return w.Name == name }
		w := store.Wait{Name: name}
		if i := slices.IndexFunc(fresh, named); i >= 0 {
			w = fresh[i]
		}
		if i := slices.IndexFunc(old, named); i >= 0 && !(replace && w.Open) {
			w = old[i]
		} else if i >= 0 {
			w.Told, w.ToldEpoch = old[i].Told, old[i].ToldEpoch
		}
		if w.Since == 0 {
			w.Since = now
		}
		out = append(out, w)
	}
	return out
}

// WaitsFor reports whether a job waits for another one, durably.
func (rs *Records) WaitsFor(want message.Dependency) bool {
	e := rs.find(want.Waiting())
	return e != nil && waitFor(&e.state, want.Of.Name) >= 0
}

// Release tells a job of a success that it may wait for. A repeated notice changes nothing. Nor does one that
// is older than the newest known: it comes from an owner whose term is over.
func (js *Jobs) Release(l message.Notice) message.Answer {
	e := js.records.find(l.Waiting())
	if e == nil {
		return message.Nobody
	}
	i := waitFor(&e.state, l.Of.Name)
	switch {
	case i < 0:
		return message.Nobody
	case e.state.Waits[i].By == l.By, overtaken(l.Stamp, &e.state.Waits[i]):
		// Write it again: if the store was reset to an older state it refuses, and the job may not know.
		js.due.touch(e)
		return message.Taken
	}
	js.due.touch(e)
	waits := slices.Clone(e.state.Waits) // a batch may hold the old slice
	waits[i].By, waits[i].Open = l.By, true
	if l.Stamp.Epoch != 0 {
		waits[i].Told, waits[i].ToldEpoch = l.Stamp.N, l.Stamp.Epoch
	}
	e.state.Waits = waits
	if allOpen(&e.state) {
		unwait(&e.state)
	}
	js.agenda.rearm(e)
	return message.Taken
}

// overtaken reports whether a newer notice than the one of a stamp has come.
func overtaken(s message.Stamp, w *store.Wait) bool {
	return s.Epoch != 0 && s.Compare(message.Stamp{Epoch: w.ToldEpoch, N: w.Told}) < 0
}

// ReleaseIf is Release for a success that was found in the history, for a job that was found waiting. It
// changes nothing unless the job still waits and knows of no other success than it did then.
func (js *Jobs) ReleaseIf(l message.Notice, was store.RunID) (released bool) {
	e := js.records.find(l.Waiting())
	if e == nil {
		return false
	}
	i := waitFor(&e.state, l.Of.Name)
	if i < 0 || e.state.Waits[i].Open || e.state.Waits[i].By != was {
		return false
	}
	return js.Release(l) == message.Taken
}
