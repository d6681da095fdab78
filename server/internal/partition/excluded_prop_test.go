package partition_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// TestExcludedTimesNeverRunAndAllAreCounted has a job with random rules, a calendar that changes at random
// while nothing is due, pauses and outages. No time runs that the calendar excludes, and each time up to the
// next one has run once or is counted as skipped once.
func TestExcludedTimesNeverRunAndAllAreCounted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := calendars{}
		r := newRig(rt, partition.Config{Calendars: c.find})
		change := func() {
			var spans [][2]int
			at := int((r.now-epoch)/1e9) - 100
			for range rapid.IntRange(0, 4).Draw(rt, "spans") {
				at += rapid.IntRange(1, 90).Draw(rt, "gap")
				end := at + rapid.IntRange(1, 90).Draw(rt, "long")
				spans, at = append(spans, [2]int{at, end}), end
			}
			c.put(rt, "off", spans...)
		}
		change()
		r.mustPut(excluding(carillon.Job{
			Overlap: carillon.Overlap(rapid.IntRange(0, 3).Draw(rt, "overlap")),
			Misfire: carillon.Misfire{Rule: carillon.MisfireRule(rapid.IntRange(0, 2).Draw(rt, "misfire")),
				Limit:  rapid.IntRange(0, 3).Draw(rt, "limit"),
				Window: time.Duration(rapid.SampledFrom([]int{0, 0, 25}).Draw(rt, "window")) * time.Second},
			Jitter:  time.Duration(rapid.SampledFrom([]int{0, 0, 7}).Draw(rt, "jitter")) * time.Second,
			Repeats: uint64(rapid.SampledFrom([]int{0, 0, 6}).Draw(rt, "repeats")),
			Lease:   time.Hour, History: carillon.History{Runs: 10_000},
		}))
		runs := 0
		work := func() {
			r.bring(keyOf("a"))
			for ds := r.deliver(1); len(ds) == 1; ds = r.deliver(1) {
				if s := second(ds[0]); c["off"] != nil && excludedAt(c, s) {
					rt.Fatalf("%d s runs, though it is excluded", s)
				}
				if rapid.Bool().Draw(rt, "takes long") {
					r.advance(time.Duration(rapid.IntRange(1, 50).Draw(rt, "takes")) * time.Second)
				}
				r.succeed(ds[0])
				r.flush()
				runs++
			}
		}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				r.advance(0)
				work()
				change()
			case 1:
				r.now += int64(rapid.IntRange(1, 90).Draw(rt, "down")) * int64(time.Second)
				r.start()
				r.flush()
			case 2:
				if !r.exists() {
					return
				}
				r.pause("a", true)
				r.advance(time.Duration(rapid.IntRange(0, 60).Draw(rt, "paused")) * time.Second)
				r.pause("a", false)
			default:
				r.advance(time.Duration(rapid.IntRange(1, 40).Draw(rt, "goes")) * time.Second)
			}
			work()
		}
		if !r.exists() {
			return // it has run as often as it was to
		}
		s := r.stored().State
		total := uint64(s.Pending)
		for _, h := range r.history("a") {
			total += max(1, h.Skipped)
		}
		if s.Run.Live {
			total++
		}
		if want := uint64(s.Next-epoch)/10e9 - 1; s.Next != 0 && total != want {
			rt.Fatalf("%d of %d times are accounted for, %d ran", total, want, runs)
		}
	})
}

func excludedAt(c calendars, second int) bool {
	f := (&carillon.CalendarRules{Except: []string{"off"}}).Filter(func(name string) *schedule.Dates { return c[name] })
	return f.Excludes(instant(epoch + int64(second)*int64(time.Second)))
}

// exists reports whether job a does.
func (r *rig) exists() bool { return r.read([]store.Ref{{Key: keyA}})[0].Exists }
