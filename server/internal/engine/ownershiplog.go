package engine

import (
	"context"
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
	// What has become of partitions; each is there once, so that the order of the lines does not matter.
	all   map[int]ownershipEntry
	timer *time.Timer // nil if all is empty
}

// logWithin is how long entries are collected for one line.
const logWithin = 200 * time.Millisecond

// ownershipEntry says what has become of one partition, and how long that took.
type ownershipEntry struct {
	ownershipLine
	took time.Duration
}

// ownershipLine is what the entries of one log line have in common.
type ownershipLine struct {
	message string
	cause   string // why the term was lost
	unknown bool   // the outcome of the last changes is unknown
}

// add adds an entry, which is logged soon. If there is an earlier entry of the partition, all earlier entries
// are logged at once.
func (l *ownershipLog) add(partition int, took time.Duration, line ownershipLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, earlier := l.all[partition]; earlier {
		l.flushLocked()
	}
	if l.timer == nil {
		l.all, l.timer = map[int]ownershipEntry{}, time.AfterFunc(logWithin, l.flush)
	}
	l.all[partition] = ownershipEntry{line, took}
}

// flush logs what has become of partitions since the last call.
func (l *ownershipLog) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushLocked()
}

// flushLocked is flush for a caller that holds the lock. A line says the longest duration.
func (l *ownershipLog) flushLocked() {
	if l.timer != nil {
		l.timer.Stop()
	}
	numbers, longest := map[ownershipLine][]int{}, map[ownershipLine]time.Duration{}
	for p, e := range l.all {
		numbers[e.ownershipLine] = append(numbers[e.ownershipLine], p)
		longest[e.ownershipLine] = max(longest[e.ownershipLine], e.took)
	}
	l.all, l.timer = nil, nil
	for line, parts := range numbers {
		slices.Sort(parts)
		level, attrs := slog.LevelInfo, []any{"count", len(parts), slog.Any("partitions", parts)}
		if took := longest[line]; took > 0 {
			attrs = append(attrs, "took", took)
		}
		if line.cause != "" {
			level, attrs = slog.LevelError, append(attrs, "error", line.cause, "outcome_unknown", line.unknown)
		}
		l.log.Log(context.Background(), level, line.message, attrs...)
	}
}
