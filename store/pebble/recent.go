package pebble

import (
	"hash/maphash"
	"math"
	"sync"

	"github.com/carillonhq/carillon"
)

// recent tells of most runs that they are not in a partition's history yet, so that it need not be searched for each run
// that finishes. It has every run recorded whose scheduled time is at or after since, in two Bloom filters, and so answers
// for those times only. When the younger filter is full, the older one is dropped and since moves past its runs; scheduled
// times grow, so few runs are older.
//
// Runs are added when a batch is built, before anybody else can see them. That a batch is refused or lost, or that a run
// leaves the history, only makes it search in vain.
type recent struct {
	seed maphash.Seed

	mu         sync.Mutex
	known      bool // since is
	asked      bool
	since      int64
	young, old filter
}

// filter is a Bloom filter over filterRuns runs, with 8 bits for each and three of them set: at most 3 of 100 are found that
// are not there.
type filter struct {
	bits []uint64
	runs int
	last int64 // the latest scheduled time
}

const (
	filterRuns  = 1 << 14
	filterWords = filterRuns / 8
)

func newRecent() *recent { return &recent{seed: maphash.MakeSeed()} }

// begin says that no run of a scheduled time at or after since is in the history but those that were added.
func (r *recent) begin(since int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known {
		r.known, r.since = true, max(r.since, since)
	}
}

// ask reports whether somebody should look, once, whether the history is empty.
func (r *recent) ask() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.known && !r.asked
	r.asked = true
	return first
}

// add adds a run, whose history key is given, and reports whether it is certainly not in the history.
func (r *recent) add(id *carillon.RunIdentity, key []byte) (fresh bool) {
	h := maphash.Bytes(r.seed, key)
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh = r.known && id.Scheduled >= r.since && !r.young.has(h) && !r.old.has(h)
	if r.young.runs == filterRuns {
		r.drop()
	}
	r.young.add(h, id.Scheduled)
	return fresh
}

// drop makes room for a young filter.
func (r *recent) drop() {
	if r.old.runs > 0 {
		r.since = max(r.since, after(r.old.last))
	}
	r.young, r.old = filter{bits: r.old.bits}, r.young
	clear(r.young.bits)
}

func (f *filter) add(h uint64, scheduled int64) {
	if f.bits == nil {
		f.bits = make([]uint64, filterWords)
	}
	if f.runs == 0 {
		f.last = math.MinInt64
	}
	f.runs, f.last = f.runs+1, max(f.last, scheduled)
	for _, at := range places(h) {
		f.bits[at/64] |= 1 << (at % 64)
	}
}

func (f *filter) has(h uint64) bool {
	if f.runs == 0 {
		return false
	}
	for _, at := range places(h) {
		if f.bits[at/64]&(1<<(at%64)) == 0 {
			return false
		}
	}
	return true
}

// places are the bits of a hash.
func places(h uint64) [3]uint64 {
	const bits = filterWords * 64
	return [3]uint64{h % bits, h >> 17 % bits, h >> 34 % bits}
}
