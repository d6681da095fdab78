package pebble

import (
	"math"
	"sync"
)

// classes is how many classes a due index has.
const classes = 4

// marks remember, for each class of a partition, a time before which its due index is empty, so that a scan does not crawl
// over the tombstones of what was finished. Scans raise a mark, puts lower it.
type marks struct {
	mu    sync.Mutex
	class [classes]mark
}

type mark struct {
	low     int64 // no entry is due earlier
	put     int64 // earliest put since the scan under way began
	scanned bool  // a scan that may raise low is under way
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

// put tells of entries that can be read from now on. It must come after that and before the Apply returns: a scan that
// begins earlier need not see them.
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

// begin is the time that a scan of a class may start from. If mine, its end must be told.
func (m *marks) begin(class uint8) (low int64, mine bool) {
	if int(class) >= classes {
		return math.MinInt64, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.class[class]
	mine = !c.scanned
	if mine {
		c.scanned, c.put = true, math.MaxInt64
	}
	return c.low, mine
}

// end says that the scan found nothing due earlier than found.
func (m *marks) end(class uint8, found int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.class[class]
	c.low = max(c.low, min(found, c.put))
	c.scanned = false
}
