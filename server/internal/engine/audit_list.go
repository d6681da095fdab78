package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/internal/pagetoken"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// auditExamined is how many entries are examined for a page. A page may hold few or none of them.
const auditExamined = 20_000

// ListAudit returns entries of all partitions, newest first, as the store has them; see [carillon.Audit].
func (a audits) ListAudit(ctx context.Context, q carillon.AuditQuery) (page carillon.AuditPage, err error) {
	if err := q.Validate(); err != nil {
		return page, err
	}
	q.PageSize = cmp.Or(q.PageSize, defaultPage)
	pages := pagetoken.List{MACKey: a.partitions.macKey, Names: []string{"audit", q.Namespace, q.Principal,
		q.Action, q.Outcome, q.Since.UTC().String(), q.Until.UTC().String()}}
	raw, err := pages.Place(q.PageToken)
	if err != nil {
		return page, err
	}
	m, err := a.merged(ctx, &q, parseAuditPlace(raw))
	if err != nil {
		return page, err
	}
	examined, bytes := 0, 0
	var last *carillon.AuditEntry
	for s := m.first(); s != nil; s = m.first() {
		e := s.next[0]
		if !q.Since.IsZero() && e.Time.Before(q.Since) {
			break
		}
		if len(page.Entries) == q.PageSize || examined == auditExamined || bytes > pageBytes {
			page.NextPageToken = pages.At(auditPlace(last))
			break
		}
		examined, last = examined+1, &e
		if auditMatches(&q, &e) {
			bytes += len(e.Principal) + len(e.Resource) + len(strings.Join(e.Fields, "")) + 256
			page.Entries = append(page.Entries, e)
		}
		if err := m.pass(ctx); err != nil {
			return page, err
		}
	}
	return page, nil
}

// auditMatches reports whether a query selects an entry, apart from its time.
func auditMatches(q *carillon.AuditQuery, e *carillon.AuditEntry) bool {
	prefix, open := strings.CutSuffix(q.Principal, "*")
	return (q.Namespace == "" || q.Namespace == e.Namespace) &&
		(q.Principal == "" || e.Principal == q.Principal || open && strings.HasPrefix(e.Principal, prefix)) &&
		(q.Action == "" || q.Action == e.Action) && (q.Outcome == "" || q.Outcome == e.Outcome)
}

// auditPlace is where a page ends: after an entry.
func auditPlace(e *carillon.AuditEntry) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(e.Time.UnixNano()))
	return append(binary.BigEndian.AppendUint64(b, e.Seq), e.Chain...)
}

// parseAuditPlace is the reverse; nil: a page begins at the start.
func parseAuditPlace(b []byte) *carillon.AuditEntry {
	if len(b) < 16 { // it has a MAC, so it is the start
		return nil
	}
	return &carillon.AuditEntry{Time: instant(int64(binary.BigEndian.Uint64(b))),
		Seq: binary.BigEndian.Uint64(b[8:]), Chain: string(b[16:])}
}

// merged begins to read the entries of all chains, newest first: those before a time and after a place.
func (a audits) merged(ctx context.Context, q *carillon.AuditQuery,
	after *carillon.AuditEntry) (*merge[carillon.AuditEntry], error) {
	found := make([][]auditSource, len(a.partitions.shards))
	err := sideBySide(len(found), func(i int) (err error) {
		found[i], err = auditSources(ctx, a.partitions.shards[i])
		return err
	})
	if err != nil {
		return nil, readError(err)
	}
	all := slices.Concat(found...)
	m := &merge[carillon.AuditEntry]{compare: newestAudit}
	for i := range all {
		s := &all[i]
		m.sources = append(m.sources, &source[carillon.AuditEntry]{number: i, shard: s.shard,
			size: readSize(q.PageSize, len(all)),
			read: func(ctx context.Context, _ *carillon.AuditEntry, n int) ([]carillon.AuditEntry, bool, error) {
				return s.read(ctx, q, after, n)
			}})
	}
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	return m, nil
}

// newestAudit orders entries: newest first, and of one time by chain.
func newestAudit(a, b *carillon.AuditEntry) int {
	return cmp.Or(b.Time.Compare(a.Time), strings.Compare(a.Chain, b.Chain), cmp.Compare(b.Seq, a.Seq))
}

// auditSource is a chain while it is read from its end.
type auditSource struct {
	shard store.Shard
	name  string
	first uint64
	last  uint64
	time  int64  // of the last one
	end   uint64 // the entry before which it is read on
	newer int64  // its time; 0: it is not known yet
	begun bool
}

// auditSources returns the chains of a partition.
func auditSources(ctx context.Context, shard store.Shard) (all []auditSource, err error) {
	add := func(name string, c *store.AuditChain) {
		all = append(all, auditSource{shard: shard, name: name, first: c.First, last: c.Last, time: c.Time,
			end: c.Last + 1})
	}
	records, err := AllMetaRecords(ctx, shard, store.MetaQuery{Kind: store.KindAuditChain})
	if err == nil {
		for _, r := range records {
			if c, err := codec.DecodeAuditChain(r.Value); err == nil { // otherwise a verification tells of it
				add(r.Key, &c)
			}
		}
		return all, nil
	}
	if !errors.Is(err, store.ErrDamaged) {
		return nil, err
	}
	names, err := audit.Names(ctx, shard)
	for i := 0; err == nil && i < len(names); i++ {
		var c *store.AuditChain
		if c, err = audit.Chain(ctx, shard, names[i]); c != nil {
			add(names[i], c)
		}
	}
	return all, err
}

// read returns the next entries, newest first.
func (s *auditSource) read(ctx context.Context, q *carillon.AuditQuery, after *carillon.AuditEntry,
	n int) (some []carillon.AuditEntry, end bool, err error) {
	if !s.begun {
		if err := s.begin(ctx, q, after); err != nil {
			return nil, false, err
		}
		s.begun = true
	}
	for len(some) == 0 && s.end > s.first {
		from := s.end - min(uint64(n), s.end-s.first)
		records, err := s.entries(ctx, from, int(s.end-from))
		if err != nil {
			return nil, false, err
		}
		for i := range slices.Backward(records) {
			e, n := auditEntryOf(&records[i])
			if n < from || n >= s.end {
				continue
			}
			if e.Outcome != auditDamaged {
				s.newer = e.Time.UnixNano()
			} else if s.newer == 0 {
				if s.newer, err = s.timeFrom(ctx, n+1); err != nil {
					return nil, false, err
				}
			}
			e.Time = instant(s.newer)
			some = append(some, e)
		}
		s.end = from
	}
	return some, s.end <= s.first, nil
}

// entries reads some entries from a number on, oldest first. Of one that the store has lost there is the key
// alone: what is damaged is found by halves.
func (s *auditSource) entries(ctx context.Context, from uint64, some int) ([]store.MetaRecord, error) {
	records, err := s.shard.MetaRecords(ctx, store.MetaQuery{Kind: store.KindAudit, Prefix: s.name + "/",
		After: store.AuditKey(s.name, from-1), Limit: some})
	if !errors.Is(err, store.ErrDamaged) {
		return records, err
	}
	if some <= 1 {
		return []store.MetaRecord{{Kind: store.KindAudit, Key: store.AuditKey(s.name, from)}}, nil
	}
	middle := from + uint64(some/2)
	first, err := s.entries(ctx, from, some/2)
	if err != nil {
		return nil, err
	}
	rest, err := s.entries(ctx, middle, some-some/2)
	// What is there after a gap is among the rest.
	after := store.AuditKey(s.name, middle)
	first = slices.DeleteFunc(first, func(r store.MetaRecord) bool { return r.Key >= after })
	return append(first, rest...), err
}

// timeFrom returns the time of the first entry from a number on that can be read. One that is damaged is
// shown with the time of the next one: so the times of a chain never decrease, whatever is damaged.
func (s *auditSource) timeFrom(ctx context.Context, n uint64) (int64, error) {
	for some := 1; n <= s.last; some = mostRead {
		records, err := s.entries(ctx, n, some)
		if err != nil {
			return 0, err
		}
		for i := range records {
			if e, err := codec.DecodeAudit(records[i].Value); err == nil && records[i].Value != nil {
				return e.Time, nil
			}
		}
		if len(records) < some {
			break
		}
		_, last, _ := store.ParseAuditKey(records[some-1].Key)
		n = max(n, last) + 1
	}
	return s.time, nil
}

// auditDamaged is the outcome of an entry that cannot be read, or that the store has lost.
const auditDamaged = "damaged"

// auditEntryOf returns an entry as callers see it; n is 0 if the record is none. One that is damaged has its
// place alone.
func auditEntryOf(r *store.MetaRecord) (e carillon.AuditEntry, n uint64) {
	chain, n, _ := store.ParseAuditKey(r.Key)
	d, err := codec.DecodeAudit(r.Value)
	e = carillon.AuditEntry{Chain: chain, Seq: n, Hash: hex.EncodeToString(store.AuditHash(r.Key, r.Value)),
		Time: instant(d.Time), Principal: d.Principal, Address: d.Address, Node: d.Node, Action: d.Action,
		Namespace: d.Namespace, Resource: d.Resource, Outcome: d.Outcome, RequestID: d.Request, Fields: d.Fields,
		LeftOut: d.LeftOut}
	switch {
	case r.Value == nil:
		e.Outcome, e.Hash = auditDamaged, "" // nobody knows it
	case err != nil:
		e.Outcome = auditDamaged
	}
	return e, n
}

// begin looks for the entry before which the chain is read.
func (s *auditSource) begin(ctx context.Context, q *carillon.AuditQuery, after *carillon.AuditEntry) error {
	if !q.Until.IsZero() {
		if err := s.endAt(ctx, q.Until.UnixNano()); err != nil {
			return err
		}
	}
	switch {
	case after == nil:
		return nil
	case after.Chain == s.name:
		s.end = min(s.end, after.Seq)
		return nil
	case s.name < after.Chain: // its entries of that time have been shown
		return s.endAt(ctx, after.Time.UnixNano())
	}
	return s.endAt(ctx, after.Time.UnixNano()+1)
}

// endAt has the chain end before its first entry of a time or later.
func (s *auditSource) endAt(ctx context.Context, at int64) error {
	low, high := s.first, s.end
	for low < high {
		middle := low + (high-low)/2
		records, err := s.entries(ctx, middle, 1)
		if err != nil {
			return err
		}
		n, later := high, true
		if len(records) > 0 {
			if _, n, _ = store.ParseAuditKey(records[0].Key); n < high {
				of, err := s.timeFrom(ctx, max(n, middle))
				if err != nil {
					return err
				}
				later = of >= at
			}
		}
		if later {
			high = middle
		} else {
			low = max(n, middle) + 1
		}
	}
	s.end = low
	return nil
}

// VerifyAudit examines all chains, as the store has them; see [carillon.Audit].
func (a audits) VerifyAudit(ctx context.Context, heads []carillon.AuditHead) ([]carillon.AuditChain, error) {
	if n := len(heads); n > carillon.MaxAuditHeads {
		return nil, carillon.Errorf(carillon.InvalidArgument, "heads", "%d are more than %d", n,
			carillon.MaxAuditHeads)
	}
	noted := map[string][]carillon.AuditHead{}
	for _, h := range heads {
		noted[h.Chain] = append(noted[h.Chain], h)
	}
	found := make([][]carillon.AuditChain, len(a.partitions.shards))
	err := sideBySide(len(found), func(i int) (err error) {
		found[i], err = audit.Examine(ctx, a.partitions.shards[i], i, noted)
		return err
	})
	if err != nil {
		return nil, readError(err)
	}
	return audit.Missing(slices.Concat(found...), heads), nil
}
