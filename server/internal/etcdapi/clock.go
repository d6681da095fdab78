package etcdapi

import (
	"sync/atomic"
	"time"
)

// clock gives revisions. Carillon counts none over all jobs, so a revision is a point in time, in
// nanoseconds since 1970: of a job's record when it was put or patched last, of the whole now. Every node
// says the same of the same record, also after a restart, and that of the whole never goes back on a node.
type clock struct {
	now  func() time.Time
	last atomic.Int64
}

// at returns the revision of the whole, which is at least that of what was read.
func (c *clock) at(read int64) int64 {
	for {
		last := c.last.Load()
		next := max(last, read, c.now().UnixNano())
		if c.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// revisionOf returns a point in time as a revision; none is 1, the first that an etcd has.
func revisionOf(t time.Time) int64 { return max(t.UnixNano(), 1) }
