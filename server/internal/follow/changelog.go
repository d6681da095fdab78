package follow

import (
	"fmt"
	"sync"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// mostBytes is how many bytes of changes are kept for one who does not take them.
const mostBytes = 64 << 20

// changeLog keeps changes of partitions until they are sent. It is safe for concurrent use.
type changeLog struct {
	mu    sync.Mutex
	parts map[int][][]byte // the changes of each partition, in order, as package codec writes batches
	bytes int              // of all
	full  bool             // there were more than can be kept
	ring  func(partition int)
}

func newChangeLog(ring func(partition int)) *changeLog {
	return &changeLog{parts: map[int][][]byte{}, ring: ring}
}

// add keeps a change, and rings.
func (g *changeLog) add(partition int, b *store.Batch) {
	g.mu.Lock()
	if !g.full {
		text := codec.AppendBatch(nil, b)
		g.parts[partition] = append(g.parts[partition], text)
		g.bytes += len(text)
		g.full = g.bytes > mostBytes
	}
	g.mu.Unlock()
	g.ring(partition)
}

// take returns the changes of a partition that have not been taken yet.
func (g *changeLog) take(partition int) ([][]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.full {
		return nil, errFull
	}
	out := g.parts[partition]
	delete(g.parts, partition)
	for _, text := range out {
		g.bytes -= len(text)
	}
	return out, nil
}

// forget drops the changes of a partition that have not been taken.
func (g *changeLog) forget(partition int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, text := range g.parts[partition] {
		g.bytes -= len(text)
	}
	delete(g.parts, partition)
}

// errFull: changes come faster than they are taken.
var errFull = fmt.Errorf("more than %d MiB of changes wait to be copied: where they go is too slow", mostBytes>>20)
