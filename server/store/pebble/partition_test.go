package pebble

import (
	"errors"
	"testing"
	"testing/synctest"
)

// TestRunsAreCountedOnceTheyAreKnown: what is added to a count that is not known yet is in what is counted
// later.
func TestRunsAreCountedOnceTheyAreKnown(t *testing.T) {
	var c runCount
	if c.add(5); c.n.Load() != 0 {
		t.Errorf("before they are known there are %d", c.n.Load())
	}
	c.n.Store(2)
	c.known.Store(true)
	c.add(3)
	c.add(-1)
	if got := c.n.Load(); got != 4 {
		t.Errorf("there are %d runs, want 4", got)
	}
}

// TestAReadWaitsForWhatItCouldSee: for the last commit of the partition, whose error is the read's.
func TestAReadWaitsForWhatItCouldSee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p partition
		if err := p.settled(); err != nil {
			t.Errorf("before any commit: %v", err)
		}
		m := &commit{done: make(chan struct{})}
		p.flying.Store(m)
		read := make(chan error, 1)
		go func() { read <- p.settled() }()
		synctest.Wait()
		if len(read) > 0 {
			t.Fatal("it has not waited")
		}
		m.err = errors.New("lost")
		close(m.done)
		if err := <-read; !errors.Is(err, m.err) {
			t.Errorf("the read says %v", err)
		}
	})
}
