package partition

import (
	"testing"

	"github.com/carillonhq/carillon"
)

// TestContentsCountTheSpecsInMemory, however often they are set and dropped.
func TestContentsCountTheSpecsInMemory(t *testing.T) {
	c := newContents(&Config{WindowBytes: 100}, &builder{durable: 1})
	a, b := &entry{timer: -1}, &entry{timer: -1}
	for _, step := range []struct {
		e     *entry
		n     int
		bytes int
		full  bool
	}{{a, 60, 60, false}, {b, 40, 100, true}, {a, 10, 50, false}, {a, 0, 40, false}, {b, 0, 0, false}} {
		if c.set(step.e, make([]byte, step.n)); c.bytes != step.bytes || c.full() != step.full {
			t.Errorf("after %d bytes: %d, full: %v", step.n, c.bytes, c.full())
		}
	}
}

// TestALongSpecIsDroppedWhenMemoryIsFull, unless it has yet to be written, or its attempt to be handed out.
func TestALongSpecIsDroppedWhenMemoryIsFull(t *testing.T) {
	out := &builder{durable: 1}
	c := newContents(&Config{WindowBytes: InlineSpec}, out)
	e := &entry{timer: -1, seq: 2}
	c.set(e, make([]byte, InlineSpec+1))
	if c.lighten(e); e.spec == nil {
		t.Error("the spec is gone, and not durable")
	}
	out.durable = 2
	e.attempt.pending = 1
	if c.lighten(e); e.spec == nil {
		t.Error("the spec is gone, and its attempt needs it")
	}
	e.attempt.pending = 0
	if c.lighten(e); e.spec != nil || c.bytes != 0 {
		t.Error("the spec is still there")
	}
}

// TestJobsShareAParsedSchedule if they have the same text, time zone and rule for clock changes.
func TestJobsShareAParsedSchedule(t *testing.T) {
	c := newContents(&Config{}, &builder{})
	parsed := func(schedule string) any {
		return c.scheduleOf(&entry{decoded: &carillon.Job{Schedule: schedule}})
	}
	if parsed("@hourly") != parsed("@hourly") {
		t.Error("the same text is parsed twice")
	}
	if parsed("@hourly") == parsed("@daily") {
		t.Error("another text has the same schedule")
	}
}
