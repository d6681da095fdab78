package bench

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
)

// ticks is the ledger of recurring jobs: the i-th fires at first(i) and then every period. Ticks of one job
// come in order.
type ticks struct {
	prefix string
	period time.Duration
	start  time.Time
	atOnce bool // all jobs have the same phase

	from, to atomic.Int64 // receive times that count for lateness, ns
	counted  atomic.Int64 // ticks received within them
	total    atomic.Int64

	mu                               sync.Mutex
	next                             []int64 // number of the tick that each job should bring next
	missing, early, doubled, unknown int64
}

func newTicks(prefix string, jobs int, period time.Duration, start time.Time) *ticks {
	return &ticks{prefix: prefix, period: period, start: start, next: make([]int64, jobs)}
}

func (t *ticks) name(i int) string { return t.prefix + strconv.Itoa(i) }

// first is when the i-th job first fires: the phases of the jobs are spread evenly over the period, unless
// all fire at once.
func (t *ticks) first(i int) time.Time {
	if t.atOnce {
		return t.start
	}
	return t.start.Add(time.Duration(float64(t.period) * float64(i) / float64(len(t.next))))
}

// receive enters a tick.
func (t *ticks) receive(run *carillon.Run, at time.Time) (late time.Duration, ok bool) {
	t.total.Add(1)
	late = at.Sub(run.Scheduled)
	if !t.enter(run, late) {
		return late, false
	}
	now := at.UnixNano()
	if now < t.from.Load() || now >= t.to.Load() {
		return late, false
	}
	t.counted.Add(1)
	return late, true
}

// enter holds a tick against what its job should bring next; false means nobody asked for it.
func (t *ticks) enter(run *carillon.Run, late time.Duration) bool {
	rest, ours := strings.CutPrefix(run.Job, t.prefix)
	i, err := strconv.Atoi(rest)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !ours || err != nil || i < 0 || i >= len(t.next) {
		t.unknown++
		return false
	}
	since := run.Scheduled.Sub(t.first(i))
	if since < 0 || since%t.period != 0 {
		t.unknown++
		return false
	}
	if late < 0 {
		t.early++
	}
	k := int64(since / t.period)
	if k < t.next[i] {
		t.doubled++
		return true
	}
	t.missing += k - t.next[i]
	t.next[i] = k + 1
	return true
}

// outstanding is how many ticks that were due by then have not come.
func (t *ticks) outstanding(by time.Time) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var n int64
	for i := range t.next {
		if since := by.Sub(t.first(i)); since >= 0 {
			n += max(0, int64(since/t.period)+1-t.next[i])
		}
	}
	return n
}

// verdict judges the ticks that were due by then.
func (t *ticks) verdict(by time.Time) *Verdict {
	late := t.outstanding(by)
	t.mu.Lock()
	defer t.mu.Unlock()
	v := &Verdict{Delivered: t.total.Load(), Missing: t.missing + late, Early: t.early, Doubled: t.doubled,
		Unknown: t.unknown}
	v.Expected = v.Delivered + v.Missing - v.Doubled - v.Unknown
	return v
}
