package engine

import (
	"log/slog"
	"time"
)

// tidings are what has become of partitions within one pass of their lane. They are logged together, for one event (a node that
// comes or goes, a store that fails) is about many partitions; what is about one of them alone is logged for debugging. Only the
// lane's goroutine uses them.
type tidings struct{ owned, left, lost []tiding }

// tiding is how it went with one partition.
type tiding struct {
	partition int
	took      time.Duration
	cause     string // why it was lost
	unknown   bool   // it is open what became of its last changes
}

// tell logs what has become of partitions since it was called last.
func (l *lane) tell() {
	told(l.e.log.Info, "partitions owned", l.tidings.owned)
	told(l.e.log.Info, "partitions handed over", l.tidings.left)
	for rest := l.tidings.lost; len(rest) > 0; {
		same, others := rest[:0:0], rest[:0:0]
		for _, t := range rest {
			if t.cause == rest[0].cause && t.unknown == rest[0].unknown {
				same = append(same, t)
			} else {
				others = append(others, t)
			}
		}
		told(l.e.log.Error, "partitions lost their terms", same, "error", same[0].cause, "outcome_unknown", same[0].unknown)
		rest = others
	}
	l.tidings = tidings{}
}

// told logs one line for all of them, with the longest that one took.
func told(log func(string, ...any), message string, all []tiding, more ...any) {
	if len(all) == 0 {
		return
	}
	numbers, longest := make([]int, len(all)), time.Duration(0)
	for i, t := range all {
		numbers[i], longest = t.partition, max(longest, t.took)
	}
	line := []any{"count", len(all), slog.Any("partitions", numbers)}
	if longest > 0 {
		line = append(line, "took", longest)
	}
	log(message, append(line, more...)...)
}
