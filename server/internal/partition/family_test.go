package partition

import (
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// relatives makes a job whose own run has a scheduled time (0: it has none) with pending runs: those of the
// given times by the schedule, and one that a caller has triggered. absent is how many are not in memory.
func relatives(own int64, absent int, times ...int64) (m *Machine, job *entry) {
	m = newMachine(Config{})
	key := carillon.Key{Namespace: "ns", Name: "a"}
	add := func(seq uint64, run store.RunState) *entry {
		e := &entry{ref: store.Ref{Key: key, Seq: seq}, timer: -1}
		e.state.UID, e.state.Run = carillon.UID{1}, run
		e.state.Run.Seq = seq
		m.Records.entries[e.ref] = e
		if run.Live {
			m.Records.live[e.state.Identity(0)] = e
		}
		return e
	}
	job = add(0, store.RunState{Live: own != 0, Scheduled: own, Cause: carillon.CauseSchedule})
	for i, t := range times {
		add(uint64(2*i+1), store.RunState{Live: true, Scheduled: t, Cause: carillon.CauseSchedule}).parent = job
	}
	add(99, store.RunState{Live: true, Scheduled: 1000, Cause: carillon.CauseTrigger}).parent = job
	job.children = int32(len(times) + 1)
	job.state.Pending = uint32(int(job.children) + absent)
	return m, job
}

func TestAFamilyIsInTheOrderOfItsRefs(t *testing.T) {
	m, job := relatives(10, 0, 40, 20, 30)
	f := m.Records.familyOf(job)
	var seqs []uint64
	for _, e := range f.runs {
		seqs = append(seqs, e.ref.Seq)
	}
	if len(seqs) != 5 || seqs[0] != 0 || seqs[1] != 1 || seqs[2] != 3 || seqs[3] != 5 || seqs[4] != 99 {
		t.Errorf("the runs are %v", seqs)
	}
	m, job = relatives(0, 0)
	if f := m.Records.familyOf(job); len(f.runs) != 1 || f.runs[0] == job {
		t.Errorf("a job without a run is among %d runs", len(f.runs))
	}
}

// TestAFamilyKnowsWhatItCannotKnow: with runs that are not in memory, times count as begun where another run
// of one would be the worse mistake.
func TestAFamilyKnowsWhatItCannotKnow(t *testing.T) {
	for _, c := range []struct {
		name   string
		absent int
		last   int64 // scheduled time of the last finished run
		time   int64
		// What is said of the time, for a recurring job and for a one-shot.
		recurring, once bool
		begun           int64
	}{
		{"a pending run's time", 0, 0, 30, true, true, 30},
		{"another time", 0, 0, 35, false, false, 30},
		{"the own run's time", 0, 0, 10, false, false, 30},
		{"a trigger's time", 0, 0, 1000, false, false, 30},
		{"a later run has ended", 0, 50, 35, false, false, 50},
		{"some are absent", 2, 0, 35, true, false, 500},
	} {
		m, job := relatives(10, c.absent, 20, 30)
		if c.last != 0 {
			job.state.Last = store.LastRun{Scheduled: c.last, Finished: 1, Cause: carillon.CauseSchedule}
		}
		f := m.Records.familyOf(job)
		if got := f.mayRun(c.time, true); got != c.recurring {
			t.Errorf("%s: of a recurring job it may run: %v", c.name, got)
		}
		if got := f.mayRun(c.time, false); got != c.once {
			t.Errorf("%s: of a one-shot it may run: %v", c.name, got)
		}
		if got := f.lastBegun(500); got != c.begun {
			t.Errorf("%s: the last that began is %d, want %d", c.name, got, c.begun)
		}
	}
}

func TestAFamilyKnowsOfLaterRunsBeside(t *testing.T) {
	for _, c := range []struct {
		own           int64
		absent        int
		beside, allow bool // by the overlap rule
	}{{10, 0, true, true}, {30, 0, false, false}, {40, 0, false, false}, {40, 1, false, true}} {
		m, job := relatives(c.own, c.absent, 20, 30)
		f := m.Records.familyOf(job)
		serial, allow := f.laterBeside(carillon.OverlapSerial), f.laterBeside(carillon.OverlapAllow)
		if serial != c.beside || allow != c.allow {
			t.Errorf("beside the run of %d, with %d absent: %v, and %v where runs may overlap", c.own,
				c.absent, serial, allow)
		}
	}
}
