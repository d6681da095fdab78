package engine

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

// ownershipLog are what has become of partitions within a short time. They are logged together, for one event (a node that comes or
// goes, a store that fails) is about many partitions, and each may have a lane of its own; what is about one of them alone is
// logged for debugging.
type ownershipLog struct {
	mu    sync.Mutex
	all   []tiding
	of    map[int]bool // the partitions of all: each is there once, so that it does not matter which line comes first
	timer *time.Timer  // nil: there are none
}

// logWithin is how long ownership log are collected.
const logWithin = 200 * time.Millisecond

// tiding is how it went with one partition.
type tiding struct {
	partition int
	took      time.Duration
	kind
}

// kind is what ownership log have in common that are told in one line.
type kind struct {
	transition transition
	cause      string // why it was lost
	unknown    bool   // it is open what became of its last changes
}

// transition is what can become of a partition.
type transition uint8

const (
	isOwned transition = iota
	isLeft
	isLost
)

// note has it told before long what has become of a partition. What became of it before is told at once, if it has not been.
func (e *Engine) note(t tiding) {
	n := &e.ownershipLog
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of[t.partition] {
		n.tell(e.log)
	}
	if n.timer == nil {
		n.of, n.timer = map[int]bool{}, time.AfterFunc(logWithin, e.tell)
	}
	n.all, n.of[t.partition] = append(n.all, t), true
}

// tell logs what has become of partitions since it was called last.
func (e *Engine) tell() {
	e.ownershipLog.mu.Lock()
	defer e.ownershipLog.mu.Unlock()
	e.ownershipLog.tell(e.log)
}

// tell logs all, a line for each kind. The caller has the lock.
func (n *ownershipLog) tell(log *slog.Logger) {
	if n.timer != nil {
		n.timer.Stop()
	}
	rest := n.all
	n.all, n.of, n.timer = nil, nil, nil
	for len(rest) > 0 {
		var same, others []tiding
		for _, t := range rest {
			if t.kind == rest[0].kind {
				same = append(same, t)
			} else {
				others = append(others, t)
			}
		}
		told(log, same)
		rest = others
	}
}

// told logs one line for all of them, which are of one kind, with the longest that one took.
func told(log *slog.Logger, all []tiding) {
	numbers, longest := make([]int, len(all)), time.Duration(0)
	for i, t := range all {
		numbers[i], longest = t.partition, max(longest, t.took)
	}
	slices.Sort(numbers)
	line := []any{"count", len(all), slog.Any("partitions", numbers)}
	if longest > 0 {
		line = append(line, "took", longest)
	}
	switch k := all[0].kind; k.transition {
	case isOwned:
		log.Info("partitions owned", line...)
	case isLeft:
		log.Info("partitions handed over", line...)
	case isLost:
		log.Error("partitions lost their terms", append(line, "error", k.cause, "outcome_unknown", k.unknown)...)
	}
}
