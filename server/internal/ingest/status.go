package ingest

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
)

// maxError is the most bytes of an error that a status has: it is for people.
const maxError = 1 << 10

// tally counts the messages of a topic.
type tally struct {
	done, repeated, dead, retried atomic.Int64

	inFlight atomic.Int64
	last     atomic.Int64 // when the last message was received, in Unix nanoseconds; 0: none was
}

func (t *tally) of(o Outcome) *atomic.Int64 {
	switch o {
	case Done:
		return &t.done
	case Repeated:
		return &t.repeated
	case Dead:
		return &t.dead
	}
	return &t.retried
}

// count counts a message of a topic by its outcome.
func (g *Ingest) count(t *topic, o Outcome) {
	t.tally.of(o).Add(1)
	g.o.Count(g.config.Name, t.name, o)
}

// Status returns how each topic stands at this node alone, which is its only reader.
func (g *Ingest) Status(node string) []carillon.Ingest {
	all := make([]carillon.Ingest, len(g.topics))
	for i, t := range g.topics {
		r := carillon.IngestReader{Node: node, Since: g.since, Connected: t.connected.Load(),
			Retrying: brief(t.held.why())}
		if text, since := t.outage.why(); !r.Connected {
			r.Error, r.ErrorSince = brief(text), since
		}
		r.Lag, r.LagKnown = t.source.Lag()
		r.InFlight = int(t.tally.inFlight.Load())
		if last := t.tally.last.Load(); last != 0 {
			r.LastMessage = time.Unix(0, last).UTC()
		}
		r.Counts = carillon.IngestCounts{Done: t.tally.done.Load(), Repeated: t.tally.repeated.Load(),
			Dead: t.tally.dead.Load(), Retried: t.tally.retried.Load()}
		all[i] = described(&g.config, i, r)
	}
	return all
}

// described is a topic of an ingest with a reader.
func described(c *Config, topic int, r carillon.IngestReader) carillon.Ingest {
	return carillon.Ingest{Namespace: c.Namespace, Name: c.Name, Broker: c.Broker, Kind: c.Settings.Kind,
		Topic: c.Topics[topic], Priority: topic + 1, Group: c.Group, DeadLetter: c.DeadLetter.BrokerAddress(),
		IngestState: r.IngestState, Readers: []carillon.IngestReader{r}}
}

// brief is the text of an error, cut.
func brief(text string) string {
	if len(text) <= maxError {
		return text
	}
	return strings.ToValidUTF8(text[:maxError], "") + "…"
}

// unstarted is an ingest that cannot be started.
type unstarted struct {
	config Config
	since  time.Time
	err    error
}

func (u *unstarted) status(node string) (all []carillon.Ingest) {
	for i := range u.config.Topics {
		all = append(all, described(&u.config, i, carillon.IngestReader{Node: node, Since: u.since,
			Error: brief(u.err.Error()), ErrorSince: u.since}))
	}
	return all
}

// Status returns how the topics stand at this node, by ingest, also those of ingests that cannot be started.
func (s *Set) Status(node string) (all []carillon.Ingest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.all)) {
		all = append(all, s.all[name].Status(node)...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.unstarted)) {
		all = append(all, s.unstarted[name].status(node)...)
	}
	return all
}
