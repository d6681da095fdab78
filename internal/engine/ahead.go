package engine

import (
	"github.com/carillonhq/carillon/store"
)

// fetchAtOnce is how many records are read at once for the calls of several partitions.
const fetchAtOnce = 4096

// fetch reads at once what calls of the lane's partitions need, if the store can: their rounds come one after the other, and
// none should wait for the store's answers to the others. What it does not read, or cannot, each round reads for itself.
func (l *lane) fetch() {
	if l.reader == nil {
		return
	}
	asked, of, refs := l.asked[:0], l.askers[:0], l.refs[:0]
	for _, p := range l.parts {
		from := len(refs)
		if refs = p.appendWanted(refs); len(refs) > from {
			asked, of = append(asked, store.Asked{Shard: p.shard, Refs: refs[from:]}), append(of, p)
		}
	}
	if len(asked) > 1 {
		l.bring(asked, of)
	}
	clear(asked)
	clear(of)
	clear(refs)
	l.asked, l.askers, l.refs = asked, of, refs
}

// fetchFor reads at once what a joint put is about.
func (l *lane) fetchFor(j *joint) {
	if l.reader == nil {
		return
	}
	var asked []store.Asked
	var of []*owned
	for i := range j.portions {
		s := &j.portions[i]
		if s.p.m == nil {
			continue // it is refused
		}
		var refs []store.Ref
		for k := range s.reqs {
			if ref := (store.Ref{Key: s.reqs[k].Job.Key()}); !s.p.m.Has(ref) {
				refs = append(refs, ref)
			}
		}
		if len(refs) > 0 {
			asked, of = append(asked, store.Asked{Shard: s.p.shard, Refs: refs}), append(of, s.p)
		}
	}
	if len(asked) > 1 {
		l.bring(asked, of)
	}
}

// bring brings records into memory. That a record does not exist is known until the partition has had its round.
func (l *lane) bring(asked []store.Asked, of []*owned) {
	records, err := l.reader.ReadAll(of[0].ctx, asked)
	if err != nil {
		of[0].readFailed(err)
		return
	}
	now := l.e.now()
	for i, p := range of {
		p.m.Load(records[i], now)
		p.touched = append(p.touched, asked[i].Refs...)
		for k := range records[i] {
			if !records[i][k].Exists {
				p.missing[records[i][k].Ref] = true
			}
		}
	}
}

// appendWanted appends the records that calls which wait for the partition's round need and memory lacks, until there are
// fetchAtOnce of all partitions.
func (p *owned) appendWanted(refs []store.Ref) []store.Ref {
	if p.m == nil || p.claiming || p.leaving {
		return refs
	}
	p.box.mu.Lock()
	defer p.box.mu.Unlock()
	for i := range p.box.in.calls {
		for _, ref := range p.box.in.calls[i].refs {
			if len(refs) < fetchAtOnce && !p.m.Has(ref) {
				refs = append(refs, ref)
			}
		}
	}
	return refs
}
