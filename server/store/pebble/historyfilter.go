package pebble

import (
	"hash/maphash"
	"math"
	"sync"

	"github.com/carillonhq/carillon/server/store"
)

// historyFilter tells of most runs that they are not in a partition's history yet, so that the history need
// not be searched for each run that finishes. Two Bloom filters hold every recorded run whose scheduled time
// is after past, so it answers for those times only. When the younger filter is full, the older one is
// dropped and past moves to the last of its runs; scheduled times grow, so few runs are older.
//
// Runs are added when a batch is built, before anyone else can see them. A batch that is refused or lost, or
// a run that leaves the history, only makes a later search futile.
type historyFilter struct {
	seed maphash.Seed

	most       int // runs per filter
	mu         sync.Mutex
	known      bool // past is known
	asked      bool
	past       int64
	young, old filter
}

// filter is a Bloom filter with 8 bits for each run and three of them set: at most 3 of 100 absent runs seem
// present.
type filter struct {
	bits []uint64
	runs int
	last int64 // the latest scheduled time
}

// youngRuns is how many runs the younger filters of a store have room for, over all its partitions: 1 MiB,
// and as much for the older ones. A filter for fewer than leastRuns is not worth it.
const (
	youngRuns = 1 << 20
	leastRuns = 64
)

// newHistoryFilter returns the filter of a partition, one of so many.
func newHistoryFilter(partitions int) *historyFilter {
	return &historyFilter{seed: maphash.MakeSeed(), past: math.MinInt64,
		most: max(leastRuns, youngRuns/partitions)}
}

// begin declares that the history has no runs with a scheduled time after past except those that were added.
func (r *historyFilter) begin(past int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known {
		r.known, r.past = true, max(r.past, past)
	}
}

// ask reports, once, that the caller should find out whether the history is empty.
func (r *historyFilter) ask() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.known && !r.asked
	r.asked = true
	return first
}

// add adds a run with its history key, and reports whether it is certainly not in the history.
func (r *historyFilter) add(id *store.RunID, key []byte) (fresh bool) {
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

// forget invalidates the filter: begin may have been told too little, because of a commit that was lost.
func (r *historyFilter) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known, r.asked = false, false
}

// drop makes room for a new young filter.
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

// places returns the bits of a hash.
func (f *filter) places(h uint64) [3]uint64 {
	bits := uint64(len(f.bits)) * 64
	return [3]uint64{h % bits, h >> 17 % bits, h >> 34 % bits}
}
