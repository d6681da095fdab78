package engine

import (
	"context"
	"slices"

	"github.com/carillonhq/carillon/store"
)

// readAtMost is how many records are read at once for the calls of a lane.
const readAtMost = 4096

// reading is what is read at once, beside the lane, for calls that wait in the boxes of its partitions: no partition's round waits
// for the store's answer to another's, and none for what a caller wants to know while runs are due. On a store that cannot read
// for several partitions at once each round reads for itself.
type reading struct {
	asked   []store.Asked
	of      []*partitionRunner // one for each of asked
	refs    []store.Ref
	records [][]store.Record
	err     error
}

// fetch has read what calls of the lane's partitions need that wait for their rounds, one time after the other. What comes in
// meanwhile is the next one.
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
			p.asking = true
		}
	}
	if len(r.asked) > 0 {
		l.asking = true
		for i := range l.group.writes { // on its way: what is read may be older
			l.group.commits[i].p.noteChanged(l.group.writes[i].Batch)
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

// appendWanted appends the records that calls which wait for the partition's round need and memory lacks, until there are
// readAtMost of all partitions.
func (p *partitionRunner) appendWanted(refs []store.Ref) []store.Ref {
	if p.m == nil || p.claiming || p.leaving {
		return refs
	}
	p.box.mu.Lock()
	defer p.box.mu.Unlock()
	for i := range p.box.in.calls {
		if len(refs) >= readAtMost {
			p.lane.unread = true
			break
		}
		if c := &p.box.in.calls[i]; !c.asked && !c.ready(p.m.Has) {
			c.asked = true
			for _, ref := range c.refs {
				if !p.m.Has(ref) {
					refs = append(refs, ref)
				}
			}
		}
	}
	return refs
}

// learn takes what has been read, and lets the calls go on that wait for it.
func (l *lane) learn() {
	select {
	case r := <-l.found:
		for i, p := range r.of {
			switch {
			case r.err != nil:
				p.failAsked(r.err)
			case p.shard == r.asked[i].Shard && !p.leaving:
				p.bringIn(r.asked[i].Refs, r.records[i])
				p.box.asked(true)
			default: // of a term that is over
				p.box.asked(false)
			}
			p.asking = false
			clear(p.changed)
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

// bringIn brings records into memory until the next round has ended, and so is it known which do not exist. What was on its way to the
// store when they were asked for, or has left since, may be in them or not: these a round reads again.
func (p *partitionRunner) bringIn(refs []store.Ref, records []store.Record) {
	if len(p.changed) > 0 {
		kept := make([]store.Record, 0, len(records))
		for i := range records {
			if ref := records[i].Ref; !p.changed[ref] && !p.changed[ref.Job()] {
				kept = append(kept, records[i])
			}
		}
		records = kept
	}
	p.m.Load(records, p.e.now())
	p.touched = append(p.touched, refs...)
	for i := range records {
		if !records[i].Exists {
			p.missing[records[i].Ref] = true
		}
	}
}

// noteChanged takes note of what leaves for the store while something is being read.
func (p *partitionRunner) noteChanged(b *store.Batch) {
	if !p.asking {
		return
	}
	for i := range b.Puts {
		p.changed[b.Puts[i].Ref] = true
	}
	for _, ref := range b.Deletes {
		p.changed[ref] = true
	}
}

// asked lets the calls go on for which something was being read: to their round, or to be read for again.
func (b *mailbox) asked(read bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.in.calls {
		if c := &b.in.calls[i]; c.asked {
			c.asked, c.read = false, read
		}
	}
}

// failAsked ends the calls for which reading has failed, or was given up as the engine stops.
func (p *partitionRunner) failAsked(err error) {
	refusal := unread(err)
	if p.e.stopping() {
		refusal = p.e.errStopping()
	} else {
		p.readFailed(err)
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

// fetchFor reads at once what group puts are about.
func (l *lane) fetchFor(js []*groupPut) {
	if l.reader == nil {
		return
	}
	of := map[*partitionRunner][]store.Ref{}
	for _, j := range js {
		for i := range j.portions {
			s := &j.portions[i]
			if s.p.m == nil {
				continue // it is refused
			}
			for k := range s.reqs {
				if ref := (store.Ref{Key: s.reqs[k].Job.Key()}); !s.p.m.Has(ref) {
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
	records, err := look(parts[0], func(ctx context.Context) ([][]store.Record, error) { return l.reader.ReadAll(ctx, asked) })
	if err != nil {
		parts[0].readFailed(err) // each reads for itself, and tells its caller
		return
	}
	for i, p := range parts {
		p.bringIn(asked[i].Refs, records[i])
	}
}
