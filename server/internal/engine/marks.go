package engine

import (
	"context"
	"time"

	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

const (
	// markKept is how long a marker is kept after its intent was seen to be gone. Whoever deleted the intent
	// has completed the batch; shares of an earlier coordinator arrive at most answerWithin after its term.
	markKept = time.Minute
	// intentsAtOnce is how many open batches of one coordinator a sweep looks at; if there are more it waits
	// for the next sweep.
	intentsAtOnce = 1000
)

// markSweep removes the applied markers of one partition under one term, some time after their intents have
// gone. The lane's goroutine uses it.
type markSweep struct {
	term    store.Term
	gone    map[string]int64 // batches with a marker and no intent, and when that was found, by Engine.elapsed
	looking bool             // it is being found out which intents are gone
}

// goneMarks are the batches with markers whose intents were found to be gone, for a partition in a term.
type goneMarks struct {
	term    store.Term
	batches []string
}

func newMarkSweep(term store.Term) markSweep { return markSweep{term: term, gone: map[string]int64{}} }

// due returns which of the partition's markers are to be removed now, and of which it is not known whether
// their intents are gone. These stay in marks.
func (s *markSweep) due(marks map[string]int, now int64) (remove []string) {
	for id := range marks {
		if since := s.gone[id]; since != 0 {
			delete(marks, id)
			if now-since >= int64(markKept) {
				delete(s.gone, id)
				remove = append(remove, id)
			}
		}
	}
	return remove
}

// found records when intents were found to be gone.
func (s *markSweep) found(in []goneMarks, now int64) {
	for _, g := range in {
		if g.term != s.term {
			continue
		}
		s.looking = false
		for _, id := range g.batches {
			s.gone[id] = now
		}
	}
}

// sweepMarkers removes the partition's markers that are not needed any more, and finds out about others in
// the background.
func (p *partitionRunner) sweepMarkers() {
	if p.marks.looking {
		return
	}
	marks := p.m.Applied.Coordinators()
	for _, id := range p.marks.due(marks, p.e.elapsed()) {
		p.m.Applied.Remove(id)
	}
	if len(marks) == 0 {
		return
	}
	term := p.own.term
	p.marks.looking = p.e.batches.run(func() {
		gone := p.e.batches.withoutIntent(marks)
		p.box.put(func(m *mail) { m.marks = append(m.marks, goneMarks{term, gone}) })
	})
}

// withoutIntent returns those batches whose intents are gone. Batches whose coordinator cannot be read are
// left out.
func (bs *batches) withoutIntent(marks map[string]int) []string {
	byCoordinator := map[int][]string{}
	for id, c := range marks {
		byCoordinator[c] = append(byCoordinator[c], id)
	}
	var gone []string
	for c, ids := range byCoordinator {
		left, ok := bs.intentsOf(c)
		for _, id := range ids {
			if ok && !left[id] {
				gone = append(gone, id)
			}
		}
	}
	return gone
}

// intentsOf returns the batches whose intents a partition holds. ok is false if they cannot be read or are
// too many.
func (bs *batches) intentsOf(number int) (left map[string]bool, ok bool) {
	if number < 0 || number >= len(bs.partitions.parts) {
		return nil, true
	}
	ctx, cancel := context.WithTimeout(bs.partitions.life, answerWithin)
	defer cancel()
	shard := bs.partitions.shards[number]
	left = map[string]bool{}
	for after := ""; len(left) < intentsAtOnce; {
		records, err := shard.MetaRecords(ctx, store.MetaQuery{Kind: store.KindIntent, After: after, Limit: 1})
		if err != nil {
			return nil, false
		}
		if len(records) == 0 {
			return left, true
		}
		id := partition.IntentID(records[0].Key)
		left[id] = true
		after = partition.IntentPrefix(id) + "\xff"
	}
	return nil, false
}
