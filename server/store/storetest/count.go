package storetest

import (
	"fmt"
	"maps"
	"math"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// countCases are about stores that are Counters; others pass them.
var countCases = []Case{
	{Name: "count/what is staged, by queue, and the oldest", check: counting(countStaged)},
	{Name: "count/what is dead, by namespace", check: counting(countDead)},
	{Name: "count/what has left is not counted", check: counting(countLess)},
	{Name: "count/jobs by phase, and all jobs", check: counting(countJobs)},
	{Name: "count/an unknown partition", check: counting(countUnknown)},
}

// counting leaves out what the store does not offer.
func counting(check func(e *env)) func(e *env) {
	return func(e *env) {
		if _, ok := e.store.(store.Counter); ok {
			check(e)
		}
	}
}

// wantCounts checks what partitions hold in all, and that each partition has its own.
func (e *env) wantCounts(partitions []int, want store.Counts) {
	e.Helper()
	each, err := e.store.(store.Counter).Count(e.Context(), partitions)
	e.must(err)
	if len(each) != len(partitions) {
		e.Fatalf("%d counts of %d partitions", len(each), len(partitions))
	}
	got := store.NewCounts()
	for i, p := range partitions {
		alone, err := e.store.(store.Counter).Count(e.Context(), []int{p})
		e.must(err)
		if !maps.Equal(each[i].Staged, alone[0].Staged) || !maps.Equal(each[i].Dead, alone[0].Dead) ||
			!maps.Equal(each[i].Phases, alone[0].Phases) {
			e.Errorf("partition %d of %v holds %+v, and %+v alone", p, partitions, each[i], alone[0])
		}
		got.Add(each[i])
	}
	if !maps.Equal(got.Staged, want.Staged) {
		e.Errorf("staged in %v: %v, want %v", partitions, got.Staged, want.Staged)
	}
	if !maps.Equal(got.Dead, want.Dead) {
		e.Errorf("dead in %v: %v, want %v", partitions, got.Dead, want.Dead)
	}
}

func countStaged(e *env) {
	e.wantCounts([]int{0, 1, 2, 3}, store.NewCounts())
	all := store.NewCounts()
	of := map[int]store.Counts{}
	queues := append([]string{"default\x00worker\x00emails", "default\x00worker\x00emails\x00key",
		"q"}, oddNames...)
	for _, p := range []int{0, 2, 3} {
		of[p] = store.NewCounts()
		var puts []store.Record
		for i, queue := range queues {
			for rank := range uint8(4) {
				due := base - int64(rank)*1000 + int64(p) // the lowest priority has the oldest
				if rank == 1 {
					due = -base // but before 1970 there was one
				}
				puts = append(puts, job(oddNames[i%len(oddNames)]+string(rune('a'+i%26))+string(rune('0'+rank)),
					priority(rank), parked(queue, due)))
				of[p].AddStaged(queue, 1, due)
				all.AddStaged(queue, 1, due)
			}
		}
		puts = append(puts, job("due", due(base)))
		e.own(p).putShuffled(puts)
	}
	e.wantCounts([]int{0, 1, 2, 3}, all)
	for p, want := range of {
		e.wantCounts([]int{p}, want)
	}
	e.wantCounts([]int{1}, store.NewCounts())
	e.wantCounts(nil, store.NewCounts())
}

func countDead(e *env) {
	want := store.NewCounts()
	for _, p := range []int{1, 3} {
		s := e.own(p)
		for i, namespace := range []string{ns, "tenant-b", "tenant-b2"} {
			for n := range int64(3 + i) {
				r := s.run("a", n, carillon.RunDead)
				r.Key = carillon.Key{Namespace: namespace, Name: "a"}
				r.ID = s.runID(r.Key, n)
				s.putRuns(r)
				want.Dead[namespace]++
			}
		}
		s.putRuns(s.run("b", 1, carillon.RunSucceeded), s.run("b", 2, carillon.RunFailed))
	}
	e.wantCounts([]int{3, 0, 1}, want)
}

func countLess(e *env) {
	s := e.own(2)
	runs := []store.RunRecord{s.run("a", 1, carillon.RunDead), s.run("a", 2, carillon.RunDead),
		s.run("a", 3, carillon.RunDead)}
	for i := range runs {
		runs[i].Expires = math.MaxInt64
	}
	runs[2].Expires = base
	s.putRuns(runs...)
	s.put(job("a", parked("q", base)), job("b", parked("q", base+1)), job("c", parked("q", base+2)),
		pending("c", 1, parked("p", base)))
	s.apply(store.Batch{Redrive: []store.RunRef{{Key: runs[0].Key, ID: runs[0].ID}},
		Deletes: []store.Ref{jobRef("c")}, Puts: []store.Record{job("a", due(base))},
		Expire: &store.Expire{Before: base, Most: plenty, Limit: plenty}})
	want := store.NewCounts()
	want.AddStaged("q", 1, base+1)
	want.Dead[ns] = 1
	e.wantCounts([]int{2}, want)
}

// countJobs: pending runs are no jobs. A job that changes its phase, or is deleted, is in none of its old
// ones.
func countJobs(e *env) {
	want, jobs := map[int]map[carillon.Phase]int{}, map[int]int{}
	for _, p := range []int{0, 2} {
		s := e.own(p)
		var puts []store.Record
		want[p] = map[carillon.Phase]int{}
		for phase := carillon.PhaseScheduled; phase <= carillon.PhaseWaiting; phase++ {
			for n := range int(phase) + 2 + p {
				name := fmt.Sprint(phase, "/", n)
				puts = append(puts, job(name, atPhase(phase)), pending(name, 1, atPhase(phase)))
				if phase != carillon.PhaseScheduled {
					want[p][phase]++
				}
				jobs[p]++
			}
		}
		s.putShuffled(puts)
		s.put(job("running/0", atPhase(carillon.PhasePaused)), job("ready/0", atPhase(carillon.PhaseScheduled)))
		s.apply(store.Batch{Deletes: []store.Ref{jobRef("staged/0")}})
		want[p][carillon.PhaseRunning]--
		want[p][carillon.PhasePaused]++
		want[p][carillon.PhaseReady]--
		want[p][carillon.PhaseStaged]--
		jobs[p]--
	}
	counts, err := e.store.(store.Counter).Count(e.Context(), []int{2, 1, 0})
	e.must(err)
	all, err := e.store.(store.Counter).CountJobs(e.Context(), []int{2, 1, 0})
	e.must(err)
	for i, p := range []int{2, 1, 0} {
		if !maps.Equal(counts[i].Phases, want[p]) || all[i] != jobs[p] {
			e.Errorf("partition %d has %d jobs, %v, want %d, %v", p, all[i], counts[i].Phases, jobs[p], want[p])
		}
	}
}

// atPhase puts a record into a phase, with what the phase needs.
func atPhase(phase carillon.Phase) func(*store.Record) {
	return func(r *store.Record) {
		if phase == carillon.PhaseStaged {
			parked("q", base)(r)
			return
		}
		r.State.Phase = phase
	}
}

func countUnknown(e *env) {
	for _, p := range []int{-1, e.store.Meta().ProvingGround() + 1} {
		_, err := e.store.(store.Counter).Count(e.Context(), []int{0, p})
		_, jobs := e.store.(store.Counter).CountJobs(e.Context(), []int{0, p})
		if err == nil || jobs == nil {
			e.Errorf("partition %d was counted", p)
		}
	}
}
