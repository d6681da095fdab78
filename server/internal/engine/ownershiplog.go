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
	log *slog.Logger
	mu  sync.Mutex
	all []ownershipEntry
	// The partitions in all; each is there once, so that the order of the lines does not matter.
	of    map[int]bool
	timer *time.Timer // nil if all is empty
}

// logWithin is how long entries are collected for one line.
const logWithin = 200 * time.Millisecond

// ownershipEntry says what has become of one partition.
type ownershipEntry struct {
	partition int
	took      time.Duration
	ownershipLine
}

// ownershipLine is what the entries of one log line have in common.
type ownershipLine struct {
	transition transition
	cause      string // why the term was lost
	unknown    bool   // the outcome of the last changes is unknown
}

// add adds an entry, which is logged soon. If there is an earlier entry of the partition, all earlier entries
// are logged at once.
func (l *ownershipLog) add(e ownershipEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[e.partition] {
		l.flushLocked()
	}
	if l.timer == nil {
		l.of, l.timer = map[int]bool{}, time.AfterFunc(logWithin, l.flush)
	}
	l.all, l.of[e.partition] = append(l.all, e), true
}

// flush logs what has become of partitions since the last call.
func (l *ownershipLog) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushLocked()
}

// flushLocked is flush for a caller that holds the lock. It logs the entries by line.
func (l *ownershipLog) flushLocked() {
	if l.timer != nil {
		l.timer.Stop()
	}
	rest := l.all
	l.all, l.of, l.timer = nil, nil, nil
	for len(rest) > 0 {
		var same, others []ownershipEntry
		for _, e := range rest {
			if e.ownershipLine == rest[0].ownershipLine {
				same = append(same, e)
			} else {
				others = append(others, e)
			}
		}
		l.write(same)
		rest = others
	}
}

// write logs one line for entries that share it, with the longest duration among them.
func (l *ownershipLog) write(all []ownershipEntry) {
	numbers, longest := make([]int, len(all)), time.Duration(0)
	for i, e := range all {
		numbers[i], longest = e.partition, max(longest, e.took)
	}
	slices.Sort(numbers)
	attrs := []any{"count", len(all), slog.Any("partitions", numbers)}
	if longest > 0 {
		attrs = append(attrs, "took", longest)
	}
	switch line := all[0].ownershipLine; line.transition {
	case claimLoaded:
		l.log.Info("partitions owned", attrs...)
	case handOverEnded:
		l.log.Info("partitions handed over", attrs...)
	case termFailed:
		l.log.Error("partitions lost their terms",
			append(attrs, "error", line.cause, "outcome_unknown", line.unknown)...)
	}
}
