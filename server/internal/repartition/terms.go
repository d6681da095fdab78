package repartition

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// termList is the list of terms of a partition of before that may have left attempts in doubt. A new
// partition gets those that may have left something of its records in doubt.
type termList struct {
	ended  []partition.EndedTerm
	until  int64 // the latest of their ends
	needed map[int]map[int]bool
}

// clocks is how far the clocks of a killed node and of this process may be apart.
const clocks = 2 * time.Second

// read takes the list of a partition. Its terms have all ended, since the store is frozen.
func (l *termList) read(value []byte, of partition.Origin, now int64) error {
	terms, err := partition.ParseTerms(value)
	if err != nil {
		return err
	}
	terms.End(func(store.Term) int64 { return now + int64(clocks) })
	l.ended, l.needed = terms.Ended, map[int]map[int]bool{}
	for i := range l.ended {
		e := &l.ended[i]
		if e.Of == (partition.Origin{}) {
			e.Of = of
		}
		l.until = max(l.until, e.Until)
	}
	return nil
}

// note notes which terms may have handed out what comes next of a record, which goes to a new partition.
func (l *termList) note(s *store.State, q int) {
	due := s.Next // or later
	if s.Run.Live {
		due = s.Run.Due
	}
	if due == 0 || due > l.until {
		return
	}
	for i := range l.ended {
		if !l.ended[i].Suspect(s.UID, s.Settled, due) {
			continue
		}
		if l.needed[q] == nil {
			l.needed[q] = map[int]bool{}
		}
		l.needed[q][i] = true
	}
}

// endTerms writes the lists of the new partitions.
func (m *move) endTerms(ctx context.Context) error {
	lists := map[int]*partition.Terms{}
	for p := range m.terms {
		for q, needed := range m.terms[p].needed {
			if lists[q] == nil {
				lists[q] = &partition.Terms{}
			}
			for i, e := range m.terms[p].ended { // in their order
				if needed[i] && !slices.Contains(lists[q].Ended, e) {
					lists[q].Ended = append(lists[q].Ended, e)
				}
			}
		}
	}
	for q, terms := range lists {
		// Oldest first: of several that may have handed something out, the first one did.
		slices.SortStableFunc(terms.Ended, func(a, b partition.EndedTerm) int {
			return cmp.Compare(a.Term.Epoch, b.Term.Epoch)
		})
		r := terms.Record()
		if err := m.out.meta(ctx, q, &r); err != nil {
			return err
		}
	}
	return nil
}
