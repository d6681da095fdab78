package pebble

import "sync/atomic"

// partition is what the store keeps in memory for one partition.
type partition struct {
	marks         *marks
	flying        atomic.Pointer[commit] // the last commit with writes of this partition
	runs          runCount
	heads         *headCache
	historyFilter *historyFilter
	// childless: after the last commit there are no pending runs, so that deleting a job need not look for
	// them. Only the committer changes it, as it does heads: a batch that is refused must not count.
	childless atomic.Bool
}

// runCount counts the finished runs of a partition that are not dead. Only Apply uses it, which is called
// from one goroutine at a time. Two owners at once may both call it, but one of them is fenced and resets it.
type runCount struct {
	n     atomic.Int64
	known atomic.Bool
}

// add adds the outcome of an Apply.
func (c *runCount) add(n int64) {
	if c.known.Load() {
		c.n.Add(n)
	}
}

// settled waits until what could be read a moment ago is durable: a read must not show what a crash can undo.
func (p *partition) settled() error {
	m := p.flying.Load()
	if m == nil {
		return nil
	}
	<-m.done
	return m.err
}
