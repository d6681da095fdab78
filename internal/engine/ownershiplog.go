package engine

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

// ownershipLog collects what has become of partitions within a short time, to log it together: one event (a
// node that joins or leaves, a store that fails) concerns many partitions, and each may have a lane of its
// own. Lines about a single partition are logged at debug level.
type ownershipLog struct {
	mu  sync.Mutex
	all []tiding
	// The partitions in all; each is there once, so that the order of the lines does not matter.
	of    map[int]bool
	timer *time.Timer // nil if all is empty
}

// logWithin is how long entries are collected for one line.
const logWithin = 200 * time.Millisecond

// tiding is one entry: what has become of one partition.
type tiding struct {
	partition int
	took      time.Duration
	kind
}

// kind is what entries that share one line have in common.
type kind struct {
	transition transition
	cause      string // why the term was lost
	unknown    bool   // the outcome of the last changes is unknown
}

// note adds an entry, which is logged soon. If there is an earlier entry of the partition, all earlier
// entries are logged at once.
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

// tell logs what has become of partitions since the last call.
func (e *Engine) tell() {
	e.ownershipLog.mu.Lock()
	defer e.ownershipLog.mu.Unlock()
	e.ownershipLog.tell(e.log)
}

// tell logs all entries, one line for each kind. The caller holds the lock.
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

// told logs one line for entries of one kind, with the longest duration among them.
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
	case claimLoaded:
		log.Info("partitions owned", line...)
	case handOverEnded:
		log.Info("partitions handed over", line...)
	case termFailed:
		log.Error("partitions lost their terms", append(line, "error", k.cause, "outcome_unknown", k.unknown)...)
	}
}
