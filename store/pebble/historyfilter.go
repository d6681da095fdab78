package pebble

import (
	"hash/maphash"
	"math"
	"sync"

	"github.com/carillonhq/carillon"
)

// historyFilter tells of most runs that they are not in a partition's history yet, so that it need not be searched for each run
// that finishes. It has every run recorded whose scheduled time is after past, in two Bloom filters, and so answers for
// those times only. When the younger filter is full, the older one is dropped and past moves to the last of its runs;
// scheduled times grow, so few runs are older.
//
// Runs are added when a batch is built, before anybody else can see them. That a batch is refused or lost, or that a run
// leaves the history, only makes it search in vain.
type historyFilter struct {
	seed maphash.Seed

	most       int // runs of a filter
	mu         sync.Mutex
	known      bool // past is
	asked      bool
	past       int64
	young, old filter
}

// filter is a Bloom filter with 8 bits for each run and three of them set: at most 3 of 100 are found that are not there.
type filter struct {
	bits []uint64
	runs int
	last int64 // the latest scheduled time
}

// recentRuns is for how many runs the younger filters of a store have room, over all its partitions: 1 MiB, and as much for
// the older ones. A filter for fewer than leastRuns would be more trouble than help.
const (
	recentRuns = 1 << 20
	leastRuns  = 64
)

// newHistoryFilter makes what a partition of so many needs.
func newHistoryFilter(partitions int) *historyFilter {
	return &historyFilter{seed: maphash.MakeSeed(), past: math.MinInt64, most: max(leastRuns, recentRuns/partitions)}
}

// begin says that no run of a scheduled time after past is in the history but those that were added.
func (r *historyFilter) begin(past int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known {
		r.known, r.past = true, max(r.past, past)
	}
}

// ask reports whether somebody should look, once, whether the history is empty.
func (r *historyFilter) ask() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.known && !r.asked
	r.asked = true
	return first
}

// add adds a run, whose history key is given, and reports whether it is certainly not in the history.
func (r *historyFilter) add(id *carillon.RunIdentity, key []byte) (fresh bool) {
	h := maphash.Bytes(r.seed, key)
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh = r.known && id.Scheduled > r.past && !r.young.has(h) && !r.old.has(h)
	if r.young.runs == r.most {
		r.drop()
	}
	if r.young.bits == nil {
		r.young.bits = make([]uint64, (r.most+7)/8)
	}
	r.young.add(h, id.Scheduled)
	return fresh
}

// forget takes nothing for granted any more: what was lost with a commit may have let begin see too little.
func (r *historyFilter) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known, r.asked = false, false
}

// drop makes room for a young filter.
func (r *historyFilter) drop() {
	if r.old.runs > 0 {
		r.past = max(r.past, r.old.last)
	}
	r.young, r.old = filter{bits: r.old.bits}, r.young
	clear(r.young.bits)
}

func (f *filter) add(h uint64, scheduled int64) {
	if f.runs == 0 {
		f.last = math.MinInt64
	}
	f.runs, f.last = f.runs+1, max(f.last, scheduled)
	for _, at := range f.places(h) {
		f.bits[at/64] |= 1 << (at % 64)
	}
}

func (f *filter) has(h uint64) bool {
	if f.runs == 0 {
		return false
	}
	for _, at := range f.places(h) {
		if f.bits[at/64]&(1<<(at%64)) == 0 {
			return false
		}
	}
	return true
}

// places are the bits of a hash.
func (f *filter) places(h uint64) [3]uint64 {
	bits := uint64(len(f.bits)) * 64
	return [3]uint64{h % bits, h >> 17 % bits, h >> 34 % bits}
}
