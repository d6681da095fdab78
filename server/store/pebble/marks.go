package pebble

import (
	"math"
	"slices"
	"sync"
)

// priorities is how many priorities a due index has.
const priorities = 4

// marks remember, for each priority of a partition, a time before which its due index is empty, so that a
// scan does not crawl over the tombstones of finished runs. Scans raise a mark, puts lower it:
//
//	put   soon · become visible to snapshots · visible
//	scan  begin · take the snapshot · start · … · end
//
// A mark is never after an entry that a snapshot may have, nor after one that will soon be visible: a put
// lowers it, and a scan that was running meanwhile, or began before the put was visible, does not raise it
// beyond the put.
//
// An entry that a snapshot has before the mark of its scan's begin was put since then, so the scan was told
// of it and starts there. The mark as it is after the snapshot would not do: another scan may have raised it
// for a later snapshot.
type marks struct {
	mu         sync.Mutex
	byPriority [priorities]mark
}

type mark struct {
	low   int64   // no entry is due earlier
	soon  int64   // earliest put that may not be visible yet
	scans []*scan // running
}

// scan is one scan of a due index.
type scan struct {
	priority uint8
	low      int64 // the mark when it began
	put      int64 // earliest put that its snapshot may have, or lack
}

func newMarks() *marks {
	m := &marks{}
	m.forget()
	return m
}

// forget resets the marks.
func (m *marks) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.byPriority {
		c := &m.byPriority[i]
		c.low, c.soon = math.MinInt64, math.MaxInt64
		for _, s := range c.scans {
			s.put = math.MinInt64
		}
	}
}

// soon records entries before they become visible.
func (m *marks) soon(dues []dueMark) {
	if len(dues) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range dues {
		if int(d.priority) >= priorities {
			continue
		}
		c := &m.byPriority[d.priority]
		c.low, c.soon = min(c.low, d.due), min(c.soon, d.due)
		for _, s := range c.scans {
			s.put = min(s.put, d.due)
		}
	}
}

// visible declares that all recorded entries are visible: only the committer puts, one commit after the
// other.
func (m *marks) visible() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.byPriority {
		m.byPriority[i].soon = math.MaxInt64
	}
}

// begin begins a scan, before its snapshot is taken.
func (m *marks) begin(priority uint8) *scan {
	s := &scan{priority: priority, low: math.MinInt64, put: math.MinInt64}
	if int(priority) >= priorities {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.byPriority[priority]
	s.low, s.put = c.low, c.soon
	c.scans = append(c.scans, s)
	return s
}

// start returns the time that the scan may start from, once its snapshot is taken.
func (m *marks) start(s *scan) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return min(s.low, s.put)
}

// end ends a scan whose snapshot has nothing due earlier than found.
func (m *marks) end(s *scan, found int64) {
	if int(s.priority) >= priorities {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.byPriority[s.priority]
	c.scans = slices.DeleteFunc(c.scans, func(o *scan) bool { return o == s })
	c.low = max(c.low, min(found, s.put))
}
