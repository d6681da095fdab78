package engine

import (
	"sync/atomic"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/permit"
)

// figures are what other goroutines may read of a partition. The lane's goroutine writes them, but for
// writing.
type figures struct {
	stats   atomic.Pointer[partition.Stats]
	waiting atomic.Pointer[[]depth] // what waits in memory; refreshed once a second
	// How the limits stand that sidecars have named; refreshed once a second.
	tallies atomic.Pointer[[]partition.Tally]
	// The permits that the partition hands out as the home of limits; refreshed once a second, in a cluster.
	uses atomic.Pointer[[]permit.Use]
	// The rates of which the partition has handed out permits, as their home, and what waits for permits of
	// rates; refreshed once a second.
	rates atomic.Pointer[rateFigures]
	// The last batch of the term that changed which queues have parked runs; see [partition.Queues.Recorded].
	recorded atomic.Uint64
	// When the store began to write a batch, by Engine.elapsed; 0 = no write is under way.
	writing atomic.Int64
}

// depth is what waits in memory in one queue of a partition.
type depth struct {
	queue  delivery.Queue
	n      int   // that wait for a consumer or for room
	inLine int   // that wait for a permit
	oldest int64 // UTC ns
}

// show publishes the machine's figures.
func (f *figures) show(s partition.Stats) {
	if old := f.stats.Load(); old == nil || *old != s {
		f.stats.Store(&s)
	}
}

// showWaiting publishes what waits, as just lined up, and in lines for permits.
func (f *figures) showWaiting(lineup []delivery.Waiting, oldest func(delivery.Queue) int64,
	inLine []partition.InLine) {
	depths := make([]depth, 0, len(lineup)+len(inLine))
	for _, w := range lineup {
		depths = append(depths, depth{queue: w.Queue, n: w.N, oldest: oldest(w.Queue)})
	}
	for _, w := range inLine {
		depths = append(depths, depth{queue: w.Queue, inLine: w.N, oldest: w.Oldest})
	}
	f.waiting.Store(&depths)
}

// clear publishes that there is no machine.
func (f *figures) clear() {
	f.stats.Store(&partition.Stats{})
	f.waiting.Store(nil)
	f.tallies.Store(nil)
	f.uses.Store(nil)
	f.rates.Store(nil)
	f.recorded.Store(0)
}
