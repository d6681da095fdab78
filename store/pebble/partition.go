package pebble

import "sync/atomic"

// partition is what the store keeps in memory of one partition.
type partition struct {
	marks         *marks
	flying        atomic.Pointer[commit] // the last commit with writes of this partition
	runs          runCount
	heads         *headCache
	historyFilter *historyFilter
	// childless says that there are no pending runs after the last commit, so that the delete of a job need not look for them.
	// Like known it is changed by the committer: a batch that is refused must not have a say.
	childless atomic.Bool
}

// runCount is how many finished runs, not dead, a partition has. Only Apply uses it, which is called from one goroutine at
// a time; two owners at once may both call it, but one of them is fenced and forgets it.
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
