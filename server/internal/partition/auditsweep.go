package partition

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// auditSweep removes audit entries that are too old, or more than a partition keeps of all its chains. It
// looks at the oldest entry of each chain once, and then reads little more than it removes.
type auditSweep struct {
	oldest map[string]int64 // how old the first entry of chains is at most, as far as it is known
	left   map[string]bool  // chains that are left alone: something in them is not as this partition writes it

	toLook []string // chains whose first entry is to be looked at
	asked  string   // the chain that was asked for last
	looks  int      // how many of its entries are looked at, and not removed; 0: they are removed
	step   int      // how many entries the next step reads at most
}

// auditStep is how many entries the first step of a sweep reads, to remove some of them: mostly few have
// become too old since the last one. Each step of which all were is followed by a larger one.
const auditStep = 16

// Sweeps returns what is to be read for the next step of a sweep: the oldest entries of a chain. ok is false
// if nothing is to be removed, as far as it is known. begins says that another sweep begins.
func (l *AuditLog) Sweeps(now int64, begins bool) (q store.MetaQuery, ok bool) {
	s := &l.sweep
	if begins {
		s.step, s.toLook = auditStep, s.toLook[:0]
		for _, name := range slices.Sorted(maps.Keys(l.chains)) {
			c := l.chains[name]
			if _, known := s.oldest[name]; !known && !s.left[name] && c.First <= c.Last {
				s.toLook = append(s.toLook, name)
			}
		}
	}
	var limit int
	switch {
	case len(s.toLook) > 0:
		s.asked, s.toLook = s.toLook[0], s.toLook[1:]
		s.looks = max(s.looks, 1)
		limit = s.looks
	default:
		if s.asked, limit = l.excess(now); limit == 0 {
			return q, false
		}
		s.looks = 0
	}
	return store.MetaQuery{Kind: store.KindAudit, Prefix: s.asked + "/", Limit: limit,
		After: store.AuditKey(s.asked, l.chains[s.asked].First-1)}, true
}

// excess returns the chain with the oldest entry, and how many of its entries to read so as to remove them;
// 0: none is to be removed.
func (l *AuditLog) excess(now int64) (name string, limit int) {
	s := &l.sweep
	if len(s.oldest) == 0 {
		return "", 0
	}
	name = slices.MinFunc(slices.Collect(maps.Keys(s.oldest)), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.oldest[a], s.oldest[b]), cmp.Compare(a, b))
	})
	if kept := l.kept(); kept > l.most {
		limit = int(min(AuditSweep, kept-l.most+1))
	}
	if s.oldest[name] <= now-int64(l.keep) {
		limit = max(limit, s.step)
	}
	return name, limit
}

// kept is how many entries there are.
func (l *AuditLog) kept() (n uint64) {
	for name, c := range l.chains {
		if !l.sweep.left[name] {
			n += c.Last + 1 - c.First
		}
	}
	return n
}

// Crowded reports whether there are more entries than a partition keeps.
func (l *AuditLog) Crowded() bool { return l.kept() > l.most }

// Sweep takes what Sweeps asked for, and removes entries that are too old or too many. more reports whether
// the sweep goes on. The chain then says which hash the next entry must have. sound is false if the chain is
// not as it should be: nothing is removed then, and it is to be left alone.
func (l *AuditLog) Sweep(oldest []store.MetaRecord, now int64) (more, sound bool) {
	s, c := &l.sweep, l.chains[l.sweep.asked]
	for i := range oldest {
		name, n, ok := store.ParseAuditKey(oldest[i].Key)
		if !ok || name != s.asked || n > c.Last {
			return false, false // it is none of ours: doctor and audit verify tell of it
		}
	}
	switch {
	case len(oldest) == 0 && c.Closed:
		return false, false
	case len(oldest) == 0: // the first one may not be durable yet
		delete(s.oldest, s.asked)
	case s.looks > 0:
		l.looked(oldest)
	default:
		l.remove(oldest, now)
	}
	return l.goesOn(now), true
}

// goesOn reports whether there is another step.
func (l *AuditLog) goesOn(now int64) bool {
	_, limit := l.excess(now)
	return limit > 0 || len(l.sweep.toLook) > 0
}

// LeaveAlone has the chain that Sweeps asked for left as it is in this term: it is damaged. If entries are
// added to it, it is closed, and another one begins, for which both bounds hold again.
func (l *AuditLog) LeaveAlone(now int64) (more bool) {
	l.sweep.left[l.sweep.asked] = true
	if l.endsOpen() {
		l.changed[l.open] = true
	}
	delete(l.sweep.oldest, l.sweep.asked)
	l.sweep.looks = 0
	return l.goesOn(now)
}

// endsOpen reports whether the chain to which entries are added is to be closed.
func (l *AuditLog) endsOpen() bool { return l.sweep.left[l.open] }

// looked learns the time of the first entry of a chain. If that cannot be read, it is as old as the next one
// that can be; if none of those can, only their number has them removed.
func (l *AuditLog) looked(oldest []store.MetaRecord) {
	s := &l.sweep
	times := timesOf(oldest)
	if times[0] == math.MaxInt64 && s.looks == 1 {
		s.toLook, s.looks = slices.Insert(s.toLook, 0, s.asked), AuditSweep
		return
	}
	s.oldest[s.asked], s.looks = times[0], 0
}

// remove removes entries as far as they are too old, or too many and older than those of other chains.
func (l *AuditLog) remove(oldest []store.MetaRecord, now int64) {
	s, c := &l.sweep, l.chains[l.sweep.asked]
	others := int64(math.MaxInt64)
	for name, at := range s.oldest {
		if name != s.asked {
			others = min(others, at)
		}
	}
	kept, times := l.kept(), timesOf(oldest)
	for i, at := range times {
		if at > now-int64(l.keep) && (kept <= l.most || at > others) {
			s.oldest[s.asked] = at
			return
		}
		r := &oldest[i]
		_, n, _ := store.ParseAuditKey(r.Key)
		l.out.write(store.MetaRecord{Kind: store.KindAudit, Key: r.Key})
		kept -= n + 1 - c.First
		c.First, c.Before = n+1, store.AuditHash(r.Key, r.Value)
		l.changed[s.asked] = true
	}
	s.step = min(s.step*4, AuditSweep)
	switch at := times[len(times)-1]; {
	case c.First > c.Last:
		delete(s.oldest, s.asked)
	case at == math.MaxInt64: // none of them could be read
		delete(s.oldest, s.asked)
		s.toLook = append(s.toLook, s.asked)
	default: // the next one is no older, so the next step need not look at it first
		s.oldest[s.asked] = at
	}
}

// timesOf returns the times of entries. One that cannot be read is as old as the next one that can be.
func timesOf(records []store.MetaRecord) []int64 {
	times := make([]int64, len(records))
	next := int64(math.MaxInt64)
	for i := range slices.Backward(records) {
		if e, err := codec.DecodeAudit(records[i].Value); err == nil {
			next = e.Time
		}
		times[i] = next
	}
	return times
}
