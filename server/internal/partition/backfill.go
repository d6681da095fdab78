package partition

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/store"
)

// Backfills are metadata records (store.KindBackfill). The key is one byte for whether the backfill is
// unfinished, the job's uid, which begins with the hash of the job's key, and the backfill's sequence. So an
// id, or a job, leads to its records without an index, and a new owner reads only the unfinished ones.

// These are the first byte of a backfill's key.
const (
	UnfinishedBackfills = "u"
	EndedBackfills      = "e"
)

// EndedBackfillsOf returns the prefix of the keys of a job's ended backfills. Another job's keys may have it,
// too.
func EndedBackfillsOf(key carillon.Key) string {
	return string(binary.BigEndian.AppendUint64([]byte(EndedBackfills), store.KeyHash(key)))
}

// UnfinishedBackfillsOf returns the prefix of the keys of a job's unfinished backfills. Another job's keys
// may have it, too.
func UnfinishedBackfillsOf(key carillon.Key) string {
	return string(binary.BigEndian.AppendUint64([]byte(UnfinishedBackfills), store.KeyHash(key)))
}

// EndedBackfill returns the key of an ended backfill.
func EndedBackfill(id store.RunID) string { return backfillKey(EndedBackfills, id) }

func backfillKey(prefix string, id store.RunID) string {
	return string(binary.BigEndian.AppendUint64(append([]byte(prefix), id.UID[:]...), id.Seq))
}

// backfill is an unfinished backfill, or one whose end is not durable yet.
type backfill struct {
	id    store.RunID // Scheduled is 0, so it is no run's id
	rec   store.Backfill
	sched *schedule.Schedule // nil: not parsed yet
	wake  int64              // when it goes on; 0: when a run ends
	timer int32              // index in the heap; -1: not in it
	seq   uint64             // the batch that holds its newest change
	waits bool               // it is in Backfills.waiting
	gone  bool               // it was deleted with its job
}

// over reports whether f has no time left to run and no unfinished run.
func (f *backfill) over() bool { return f.rec.Next == 0 && len(f.rec.Open) == 0 }

// goesOn reports whether f has not ended and was not deleted.
func (f *backfill) goesOn() bool { return !f.gone && f.rec.Finished == 0 }

// parse parses the backfill's schedule once. It returns false if that is no longer possible, for example
// because the time zone was removed.
func (f *backfill) parse() bool {
	if f.sched == nil {
		basis := BackfillBasis{f.rec.Schedule, f.rec.TimeZone, f.rec.DST, f.rec.Anchor}
		f.sched, _ = basis.parse() // an error is unexpected: it was valid when the backfill was started
	}
	return f.sched != nil
}

// allowance returns how many runs f may make now, leaving aside the bound on its job's pending runs. If none
// because of its rate, wake is when it may; otherwise it waits for the end of a run. windowJobs is how many
// records the window holds.
func (f *backfill) allowance(now int64, windowJobs int) (n int, wake int64) {
	open := len(f.rec.Open)
	serial := f.rec.Overlap == carillon.OverlapSerial
	switch {
	case f.rec.Next == 0, serial && open > 0:
		return 0, 0
	case now < f.rec.Earliest:
		return 0, f.rec.Earliest
	case serial:
		return 1, 0
	}
	n = min(backfillChunk, min(backfillOpen, max(backfillOpen/16, windowJobs/2))-open)
	if f.rec.Rate > 0 {
		n = min(n, atOnce(f.rec.Rate))
	}
	return n, 0
}

// atOnce returns how many runs a rate, in runs per second, lets begin at one instant: one, or as many as come
// in 10 ms if that is more, because a partition does not act much more often.
func atOnce(rate float64) int { return max(1, int(rate/100)) }

// begin moves f on from its next time to the one after, as the pending run seq of its job begins.
func (f *backfill) begin(seq uint64) {
	r := &f.rec
	r.Open = append(r.Open, seq)
	r.Begun++
	f.moveOn(nil)
}

// moveOn moves f on from its next time to the one after, or to the one after that the filter does not leave
// out. Calendars may have changed since the times were counted, so the total follows.
func (f *backfill) moveOn(filter *schedule.Filter) {
	r, anchor := &f.rec, toTime(f.rec.Anchor)
	next, ok := filter.Next(f.sched, toTime(r.Next), anchor)
	over := !ok || fromTime(next) > r.To
	if n, limited := f.sched.Repeats(); limited && !over {
		most := int(min(n, math.MaxInt-1))
		over = f.sched.Count(anchor.Add(-1), next, anchor, most+1) > most
	}
	if r.Next = fromTime(next); over {
		r.Next, r.Total = 0, r.Begun
	}
	r.Total = max(r.Total, r.Begun)
}

// pace returns when f goes on that has just made some runs; 0: when a run of its job ends.
func (f *backfill) pace(made int, now int64) int64 {
	r := &f.rec
	if made == 0 {
		return 0 // the job has too many pending runs
	}
	wake := now
	if r.Rate > 0 {
		r.Earliest = now + int64(math.Ceil(min(float64(made)*1e9/r.Rate, float64(carillon.MaxSpan))))
		wake = r.Earliest
	}
	if r.Next == 0 || r.Overlap == carillon.OverlapSerial {
		return 0
	}
	return wake
}

// count counts the end of one of f's unfinished runs, and reports whether it was one.
func (f *backfill) count(seq uint64, status carillon.RunStatus) bool {
	i, open := slices.BinarySearch(f.rec.Open, seq)
	if !open {
		return false
	}
	f.rec.Open = slices.Delete(f.rec.Open, i, i+1)
	if status == carillon.RunSucceeded {
		f.rec.Succeeded++
	} else {
		f.rec.Failed++
	}
	return true
}

// finish ends f, whose record is kept for a while.
func (f *backfill) finish(now, keep int64) {
	switch r := &f.rec; {
	case r.Begun < r.Total: // a cancel, or a schedule that cannot be parsed, ended it early
		r.Status = carillon.BackfillCancelled
	case r.Status == carillon.BackfillRunning:
		r.Status = carillon.BackfillDone
	}
	f.rec.Finished, f.rec.Expires = now, now+keep
}

// backfillOf returns the id of the backfill that made a run, empty if none did.
func backfillOf(run store.RunID) string {
	if run.Cause != carillon.CauseBackfill {
		return ""
	}
	run.Scheduled = 0
	return run.String()
}

// BackfillOf converts a stored backfill to what callers see.
func BackfillOf(r *store.Backfill, partition int) carillon.Backfill {
	id := store.RunID{Partition: uint16(partition), UID: r.UID, Cause: carillon.CauseBackfill, Seq: r.Seq}
	return carillon.Backfill{
		ID: id.String(), Namespace: r.Key.Namespace, Job: r.Key.Name,
		Spec:   carillon.BackfillSpec{From: toTime(r.From), To: toTime(r.To), Overlap: r.Overlap, Rate: r.Rate},
		Status: r.Status, Total: r.Total, Begun: r.Begun, Succeeded: r.Succeeded, Failed: r.Failed,
		Next: orTime(r.Next), Created: toTime(r.Created), Finished: orTime(r.Finished),
	}
}

// SortBackfills sorts the newest first.
func SortBackfills(list []carillon.Backfill) {
	slices.SortFunc(list, func(a, b carillon.Backfill) int {
		return cmp.Or(b.Created.Compare(a.Created),
			cmp.Compare(b.ID, a.ID))
	})
}
