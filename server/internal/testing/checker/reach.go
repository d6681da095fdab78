package checker

import (
	"slices"
	"sort"
	"strings"
	"time"
)

// A cluster goes on while some of its nodes do not, so a fault excuses only what it can have reached. What
// reaches whom is told from the claims: a fault of a node reaches the partitions that the node owned
// meanwhile, those that nobody owned, for it may have been the one to take them, and those that another fault
// had made ownerless. It reaches every job if it names no node, or if the harness does not say which
// partition a job is in (History.Homes). A change of owners in order is no fault.

// reach is which faults reach which jobs, and when lateness is excused by that.
type reach struct {
	*world
	all     []*Fault         // that are faults
	owned   map[int][]term   // by partition
	reached map[int][]*Fault // by partition: those that may have touched it
	crowds  []span           // when every worker was busy
	worst   []span           // when lateness is excused by anything at all
	badAt   map[int][]span   // by partition; see bad
}

// term is how long a node owned a partition: until the next claim, whether it still knew or not.
type term struct {
	span
	node     string
	epoch    uint64
	claimed  time.Time // surely by then
	released time.Time // zero = it did not give it up
}

// gaveUp reports whether the owner gave the partition up before another had it.
func (t *term) gaveUp() bool { return !t.released.IsZero() && t.released.Before(t.to) }

// terms are those of each partition, by time.
func (r *reach) terms() map[int][]term {
	claims := slices.Clone(r.h.Claims)
	sort.SliceStable(claims, func(i, k int) bool { return claims[i].Epoch < claims[k].Epoch })
	out := map[int][]term{}
	for _, cl := range claims {
		all := out[cl.Partition]
		if n := len(all); n > 0 {
			all[n-1].to = cl.Return
		}
		t := term{span: span{cl.Invoke, r.never()}, node: cl.Node, epoch: cl.Epoch, claimed: cl.Return}
		for _, r := range r.h.Releases {
			if r.Partition == cl.Partition && r.Epoch == cl.Epoch {
				t.released = r.At
			}
		}
		out[cl.Partition] = append(all, t)
	}
	return out
}

// local reports whether a fault is one of certain nodes.
func (f *Fault) local() bool { return !f.worker() && len(f.Targets) > 0 }

// between reports whether a fault is one of the network between nodes.
func (f *Fault) between() bool { return slices.Contains(f.Targets, Network) }

// hits reports whether a fault is one of a node, of which a life may be named: "a" and "a.2" are both a.
func (f *Fault) hits(node string) bool {
	return slices.ContainsFunc(f.Targets,
		func(t string) bool { return node == t || strings.HasPrefix(node, t+".") })
}

// find works out which faults reach which partition.
func (r *reach) find() {
	r.all = []*Fault{}
	for i := range r.h.Faults {
		if f := &r.h.Faults[i]; !f.Orderly {
			r.all = append(r.all, f)
		}
	}
	r.owned = r.terms()
	r.reached = map[int][]*Fault{}
	for p, all := range r.owned {
		limbo := r.limbo(all)
		for _, f := range r.all {
			switch since, reaches := r.reaches(f, all, limbo); {
			case !f.local():
				r.reached[p] = append(r.reached[p], f)
			case reaches:
				part := *f
				part.From = later(f.From, since)
				r.reached[p] = append(r.reached[p], &part)
			}
		}
	}
}

// limbo is when nobody may have been able to do a partition's work: from a fault of its owner, or from its
// release, to the next claim.
func (r *reach) limbo(all []term) []span {
	var out []span
	for _, t := range all {
		if t.gaveUp() {
			out = append(out, span{t.released, t.to})
		}
		for _, f := range r.all {
			if f.local() && f.hits(t.node) && f.From.Before(t.to) && f.To.After(t.from) {
				out = append(out, span{later(f.From, t.from), earlier(t.to, f.To.Add(r.k.OwnerLease))})
			}
		}
	}
	return merged(out)
}

// reaches reports whether a fault of some nodes may have touched a partition, and since when.
func (r *reach) reaches(f *Fault, all []term, limbo []span) (since time.Time, reaches bool) {
	from, to := f.From.Add(-f.Skew.Abs()), f.To.Add(f.Skew.Abs())
	touch := func(s span) {
		if s.from.Before(to) && !s.to.Before(from) && (!reaches || s.from.Before(since)) {
			since, reaches = s.from, true
		}
	}
	touch(span{r.h.Start, all[0].from}) // nobody owned it
	for _, s := range limbo {
		touch(s)
	}
	for _, t := range all {
		if f.hits(t.node) {
			touch(t.span)
		}
	}
	if f.Skew != 0 {
		since = f.From // what it has stamped before it owned the partition may come out now
	}
	return since, reaches
}

// touched is when a fault of some nodes may have touched a partition: while it lasts and one of them owns the
// partition, or may be about to. If the next owner comes soon afterwards, for it, then until it comes.
func (r *reach) touched(f *Fault, p int) []span {
	all, lasts := r.owned[p], span{f.From, f.To}
	out := common(append(r.limbo(all), span{r.h.Start, all[0].from}), lasts)
	for _, t := range all {
		switch {
		case !f.hits(t.node):
		case t.to.After(f.To.Add(r.k.OwnerLease)):
			out = append(out, common([]span{t.span}, lasts)...)
		case t.to.After(f.From):
			out = append(out, span{later(t.from, f.From), t.to})
		}
	}
	return out
}

// faults are those that may have touched a job; of nil, all of them.
func (r *reach) faults(j *job) []*Fault {
	if j == nil || len(r.owned) == 0 {
		return r.all
	}
	home, known := r.h.Homes[j.String()]
	if !known || r.owned[home] == nil {
		return r.all
	}
	return r.reached[home]
}

// unheard reports whether a heartbeat may not have reached the owner. A worker sends it to the node that has
// handed the attempt out, and if that node has lost the partition meanwhile it must pass the heartbeat on: it
// cannot while it or the network between nodes fails.
func (r *reach) unheard(j *job, a *Attempt, b *Heartbeat, by time.Time) bool {
	home, known := r.h.Homes[j.String()]
	if !known {
		return false // every fault reaches every job
	}
	all := r.owned[home]
	for i := range all {
		t := &all[i]
		if t.from.After(a.At) || t.to.Before(a.At) {
			continue // it did not hand it out
		}
		moved := slices.ContainsFunc(all[i+1:], func(next term) bool {
			return next.node != t.node && !next.from.After(by) && !next.to.Before(b.At)
		})
		if moved && slices.ContainsFunc(r.all, func(f *Fault) bool {
			return f.local() && f.Skew == 0 && (f.between() || f.hits(t.node)) && !f.From.After(b.At) &&
				!f.To.Before(b.At)
		}) {
			return true
		}
	}
	return false
}

// clocks are the faults whose clocks may have stamped something of a job: one that came in a batch is stamped
// by the node that put the batch together, whoever owns it.
func (r *reach) clocks(j *job) []*Fault {
	if j != nil && slices.ContainsFunc(j.ops, func(o *Op) bool { return o.Kind == BatchPut }) {
		return r.all
	}
	return r.faults(j)
}

// bad is when lateness of a job is excused. What it wants of other partitions may be held up by what those
// suffer: the tokens of a concurrency key are kept in one of them, the success that it comes after in
// another.
func (r *reach) bad(j *job) []span {
	wide := j == nil || r.rated(j.namespace) || slices.ContainsFunc(j.effects, func(e *effect) bool {
		return e.job != nil && (e.vague || e.job.ConcurrencyKey != "" || len(e.job.After) > 0 ||
			r.named(j.namespace, e.job.Queue))
	})
	if wide {
		return r.worst
	}
	home, known := r.h.Homes[j.String()]
	if !known || r.owned[home] == nil {
		return r.worst
	}
	if r.badAt[home] == nil {
		r.badAt[home] = merged(slices.Concat(r.excuses(r.reached[home]), r.handedOver(r.owned[home]), r.crowds))
	}
	return r.badAt[home]
}

// named reports whether a limit was named for a queue, over all nodes.
func (r *reach) named(namespace, queue string) bool {
	return r.k.OneGate && slices.ContainsFunc(r.h.Gates,
		func(g Gate) bool { return g.Namespace == namespace && g.Queue == queue })
}

// handedOver is when a partition changed hands in order: from its release until the next owner had it, which
// may not take longer than Constants.Handover.
func (r *reach) handedOver(all []term) []span {
	var out []span
	for _, t := range all {
		if t.gaveUp() {
			out = append(out, span{t.released, earlier(t.to, t.released.Add(r.k.Handover))})
		}
	}
	return out
}
