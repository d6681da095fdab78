package checker

import (
	"sort"
	"strings"
)

// storeRules are about who owned what, and what the store committed: S6, S7, S11.
type storeRules struct{ *check }

// claims: S6, an epoch of a partition has one owner, and epochs grow with time.
func (c storeRules) claims() {
	type place struct {
		partition int
		epoch     uint64
	}
	owners := map[place]Claim{}
	seen := map[int]Claim{} // of each partition, the highest epoch that was claimed before
	claims := append([]Claim(nil), c.h.Claims...)
	sort.SliceStable(claims, func(i, k int) bool { return claims[i].Invoke.Before(claims[k].Invoke) })
	for _, cl := range claims {
		at := place{cl.Partition, cl.Epoch}
		if o, ok := owners[at]; ok && (o.Node != cl.Node || o.Nonce != cl.Nonce) {
			c.addf("S6", "", "partition %d: epoch %d was given to %s and to %s", cl.Partition,
				cl.Epoch, o.Node, cl.Node)
		}
		owners[at] = cl
	}
	byReturn := append([]Claim(nil), claims...)
	sort.SliceStable(byReturn, func(i, k int) bool { return byReturn[i].Return.Before(byReturn[k].Return) })
	k := 0
	for _, cl := range claims {
		for ; k < len(byReturn) && byReturn[k].Return.Before(cl.Invoke); k++ {
			if o := byReturn[k]; o.Epoch > seen[o.Partition].Epoch {
				seen[o.Partition] = o
			}
		}
		if o, ok := seen[cl.Partition]; ok && cl.Epoch <= o.Epoch {
			c.addf("S6", "", "partition %d: epoch %d was claimed by %s after epoch %d", cl.Partition, cl.Epoch,
				cl.Node, o.Epoch)
		}
	}
	c.v.Counters.Epochs = max(len(owners)-len(seenPartitions(claims)), 0)
}

func seenPartitions(claims []Claim) map[int]bool {
	out := map[int]bool{}
	for _, cl := range claims {
		out[cl.Partition] = true
	}
	return out
}

// legal are the changes of a run's record that the store may see. An empty state is no record; what ends a
// run is for good, but for a redrive of a dead one.
var legal = map[string][]string{
	"":        {"pending", "granted", "skipped", "cancelled"},
	"pending": {"pending", "granted", "cancelled", "skipped", "failed", "dead"},
	"granted": {"granted", "pending", "done", "failed", "dead", "cancelled"},
	"dead":    {"pending"},
}

// writes: S7, the epochs of a partition's writes do not go down, and each is by the owner; S11, the changes
// are legal ones.
func (c storeRules) writes() {
	last := map[int]Write{}
	owners := map[[2]uint64]Claim{}
	for _, cl := range c.h.Claims {
		owners[[2]uint64{uint64(cl.Partition), cl.Epoch}] = cl
	}
	states, branches := map[string]Write{}, c.lapses.branches()
	for _, w := range c.h.Writes {
		if w.Refused {
			c.v.Counters.StaleRefused++
			continue
		}
		states = branches.at(w.At, states)
		if l, ok := last[w.Partition]; ok && w.Epoch < l.Epoch {
			c.addf("S7", "", "partition %d: a write of epoch %d by %s was committed after one of epoch %d",
				w.Partition, w.Epoch, w.Node, l.Epoch)
		}
		last[w.Partition] = w
		c.fencedWrite(w)
		o, ok := owners[[2]uint64{uint64(w.Partition), w.Epoch}]
		if len(owners) > 0 && (!ok || o.Node != w.Node || o.Nonce != w.Nonce) {
			c.addf("S7", "", "partition %d: a write of epoch %d was committed by %s, which is not its owner",
				w.Partition, w.Epoch, w.Node)
		}
		c.transition(states, w)
	}
}

// deposed: S6, nobody is handed an attempt by an owner whose partition another has claimed: an owner stops
// before its lease ends.
func (c storeRules) deposed(r *run) {
	for _, a := range r.attempts {
		for _, t := range c.reach.owned[a.Partition] {
			if a.Epoch != 0 && t.epoch > a.Epoch && t.claimed.Before(a.At) && !c.madeAgain(a) &&
				!c.lapses.unnoticed(a) && !(r.job.dapr() && c.stayed(a)) {
				c.addf("S6", r.job.String(),
					"attempt %d of run %s came under epoch %d at %s, when %s had claimed epoch %d", a.Number, r.id, a.Epoch,
					c.show(a.At), t.node, t.epoch)
				return
			}
		}
	}
}

// madeAgain reports whether the owner of the moment has made an attempt again that was in doubt, which
// carries the term of an earlier one.
func (c storeRules) madeAgain(a *Attempt) bool {
	var owner *term
	for i := range c.reach.owned[a.Partition] {
		if t := &c.reach.owned[a.Partition][i]; t.claimed.Before(a.At) {
			owner = t
		}
	}
	return a.InDoubt > 0 && owner != nil && (owner.node == a.Node || strings.HasPrefix(owner.node, a.Node+"."))
}

// fencedWrite: S7, a term is over once another was claimed after it, or once it was released.
func (c storeRules) fencedWrite(w Write) {
	if w.At.IsZero() {
		return
	}
	for _, t := range c.reach.owned[w.Partition] {
		for _, f := range c.lapses.went { // it is of the history that was left
			if t.epoch == w.Epoch && t.claimed.Before(f.Back) && f.Back.Before(w.At) {
				c.addf("S7", "", "partition %d: a write of epoch %d by %s was committed at %s, after the store had gone back",
					w.Partition, w.Epoch, w.Node, c.show(w.At))
				return
			}
		}
		switch {
		case t.epoch > w.Epoch && t.claimed.Before(w.At):
			c.addf("S7", "", "partition %d: a write of epoch %d by %s was committed at %s, when %s had claimed epoch %d", w.Partition, w.Epoch,
				w.Node, c.show(w.At), t.node, t.epoch)
			return
		case t.epoch == w.Epoch && !t.released.IsZero() && t.released.Before(w.At):
			c.addf("S7", "", "partition %d: a write of epoch %d by %s was committed at %s, after it had been released",
				w.Partition, w.Epoch, w.Node, c.show(w.At))
			return
		}
	}
}

func (c storeRules) transition(states map[string]Write, w Write) {
	if w.RunID == "" {
		return
	}
	before, known := states[w.RunID]
	states[w.RunID] = w
	job := ""
	if r := c.runs[w.RunID]; r != nil {
		job = r.job.String()
	}
	if known && before.To != w.From {
		c.addf("S11", job, "run %s: a write goes from %q, but it was %q", w.RunID, w.From, before.To)
	}
	ok := false
	for _, to := range legal[w.From] {
		ok = ok || to == w.To
	}
	if w.From == "granted" && w.To == "skipped" && c.runs[w.RunID] == nil {
		ok = true // taken back before any worker had it
	}
	if !ok {
		c.addf("S11", job, "run %s: it went from %q to %q", w.RunID, w.From, w.To)
	}
	if w.From == "granted" && w.To == "granted" && w.Attempt < before.Attempt {
		c.addf("S11", job, "run %s: attempt %d was granted after attempt %d", w.RunID, w.Attempt, before.Attempt)
	}
	if (w.To == "skipped" || w.To == "cancelled") && w.Reason == "" {
		c.addf("S11", job, "run %s: it is %s, and nothing says why", w.RunID, w.To)
	}
}
