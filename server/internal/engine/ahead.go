package engine

import (
	"slices"

	"github.com/carillonhq/carillon/server/store"
)

// readAtMost is how many records are read at once for the calls of a lane.
const readAtMost = 4096

// reading is one read beside the lane, for all calls that wait in the mailboxes of its partitions. So no
// partition's round waits for a read of another partition's call, and due runs do not wait for what a caller
// wants to know. On a store that cannot read for several partitions at once each round reads for itself.
type reading struct {
	asked   []store.Asked
	of      []*partitionRunner // one for each of asked
	refs    []store.Ref
	records [][]store.Record
	err     error
}

// fetch starts a read of what waiting calls of the lane's partitions need, if none is under way. What comes
// in meanwhile is for the next one.
func (l *lane) fetch() {
	if l.reader == nil || l.asking {
		return
	}
	l.unread = false
	r := &l.reading
	for _, p := range l.parts {
		from := len(r.refs)
		if r.refs = p.appendWanted(r.refs); len(r.refs) > from {
			r.asked, r.of = append(r.asked, store.Asked{Shard: p.shard, Refs: r.refs[from:]}), append(r.of, p)
			p.records.ahead = true
		}
	}
	if len(r.asked) > 0 {
		l.asking = true
		for i := range l.group.writes { // what is in flight: the read may return older records
			l.group.commits[i].p.records.sent(l.group.writes[i].Batch)
		}
		l.reads <- r
	}
}

// lookUp is the goroutine that reads.
func (l *lane) lookUp() {
	for r := range l.reads {
		r.records, r.err = l.reader.ReadAll(l.e.life, r.asked)
		l.found <- r
		l.ring()
	}
}

// appendWanted appends the records that waiting calls of the partition need and memory lacks, up to
// readAtMost over all partitions.
func (p *partitionRunner) appendWanted(refs []store.Ref) []store.Ref {
	if !p.own.is(owned) {
		return refs
	}
	p.box.mu.Lock()
	defer p.box.mu.Unlock()
	for i := range p.box.in.calls {
		if len(refs) >= readAtMost {
			p.lane.unread = true
			break
		}
		if c := &p.box.in.calls[i]; !c.asked && !c.ready(p.m.Records.Has) {
			c.asked = true
			for _, ref := range c.refs {
				if !p.m.Records.Has(ref) {
					refs = append(refs, ref)
				}
			}
		}
	}
	return refs
}

// learn takes the result of a read and lets the calls that wait for it run.
func (l *lane) learn() {
	select {
	case r := <-l.found:
		for i, p := range r.of {
			switch {
			case r.err != nil:
				p.failAsked(r.err)
			case p.shard == r.asked[i].Shard && p.own.is(owned):
				p.records.loadAhead(r.asked[i].Refs, r.records[i], l.e.now())
				p.box.asked(true)
			default: // of an ended term
				p.box.asked(false)
			}
			p.records.readEnded()
			p.box.ring()
		}
		clear(r.asked)
		clear(r.of)
		clear(r.refs)
		l.reading = reading{asked: r.asked[:0], of: r.of[:0], refs: r.refs[:0]}
		l.asking = false
	default:
	}
}

// asked marks the calls for which a read has ended: ready for their round, or to be read for again.
func (b *mailbox) asked(read bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.in.calls {
		if c := &b.in.calls[i]; c.asked {
			c.asked, c.read = false, read
		}
	}
}

// failAsked fails the calls whose read has failed, or was cancelled because the engine stops.
func (p *partitionRunner) failAsked(err error) {
	refusal := unread(err)
	if p.e.stopping() {
		refusal = p.e.errStopping()
	} else {
		p.reads.failed(err)
	}
	p.box.mu.Lock()
	var failed []call
	p.box.in.calls = slices.DeleteFunc(p.box.in.calls, func(c call) bool {
		if c.asked {
			failed = append(failed, c)
		}
		return c.asked
	})
	p.box.mu.Unlock()
	for i := range failed {
		failed[i].fail(refusal)
	}
}

// fetchFor reads what group puts need, in one read for all partitions.
func (l *lane) fetchFor(js []*groupPut) {
	if l.reader == nil {
		return
	}
	of := map[*partitionRunner][]store.Ref{}
	for _, j := range js {
		for i := range j.portions {
			s := &j.portions[i]
			if !s.p.own.holds() {
				continue // it is refused
			}
			for k := range s.reqs {
				if ref := (store.Ref{Key: s.reqs[k].Job.Key()}); !s.p.m.Records.Has(ref) {
					of[s.p] = append(of[s.p], ref)
				}
			}
		}
	}
	var asked []store.Asked
	var parts []*partitionRunner
	for _, p := range l.parts {
		if refs := of[p]; len(refs) > 0 {
			asked, parts = append(asked, store.Asked{Shard: p.shard, Refs: refs}), append(parts, p)
		}
	}
	if len(asked) == 0 {
		return
	}
	records, err := look(&parts[0].reads, l.reader.ReadAll, asked)
	if err != nil {
		parts[0].reads.failed(err) // each partition reads for itself, and answers its caller
		return
	}
	for i, p := range parts {
		p.records.loadAhead(asked[i].Refs, records[i], l.e.now())
	}
}
