package pebble

import (
	"math"
	"sync"
)

// classes is how many classes a due index has.
const classes = 4

// marks remember, for each class of a partition, a time before which its due index is empty, so that a scan does not crawl
// over the tombstones of what was finished. Scans raise a mark, puts lower it, in an order that loses nothing:
//
//	scan  begin · take the snapshot · low · … · end
//	put   put   · become visible to snapshots · put
//
// A snapshot with the put has the first put's mark. A put that the snapshot has not is told of after begin, by the second.
type marks struct {
	mu    sync.Mutex
	class [classes]mark
	scans uint64 // begun so far
}

type mark struct {
	low  int64  // no entry is due earlier
	put  int64  // earliest put since scan began
	scan uint64 // the one under way that may raise low; 0 = none
}

func newMarks() *marks {
	m := &marks{}
	m.forget()
	return m
}

// forget takes nothing for granted any more.
func (m *marks) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.class {
		m.class[i] = mark{low: math.MinInt64}
	}
}

// put tells of entries, before and after they become visible.
func (m *marks) put(dues []dueMark) {
	if len(dues) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range dues {
		if int(d.class) < classes {
			c := &m.class[d.class]
			c.low, c.put = min(c.low, d.due), min(c.put, d.due)
		}
	}
}

// begin begins a scan. It is 0 if the scan cannot raise the mark, because another one is under way.
func (m *marks) begin(class uint8) (scan uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if int(class) >= classes || m.class[class].scan != 0 {
		return 0
	}
	m.scans++
	m.class[class].scan, m.class[class].put = m.scans, math.MaxInt64
	return m.scans
}

// low is the time that the scan of a snapshot may start from.
func (m *marks) low(class uint8) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if int(class) >= classes {
		return math.MinInt64
	}
	return m.class[class].low
}

// end ends a scan, which found nothing due earlier than found.
func (m *marks) end(class uint8, scan uint64, found int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if scan == 0 || m.class[class].scan != scan {
		return
	}
	c := &m.class[class]
	c.low = max(c.low, min(found, c.put))
	c.scan = 0
}
