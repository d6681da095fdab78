package cluster

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/internal/health"
)

// Divisors of the TTL.
const (
	unfitParts = 2 // a node that fails for this long although the store answers says that it is unfit
	proofParts = 8 // interval of its proofs until then
)

// Backoff.
const (
	firstProof   = time.Second      // after which an unfit node first tries again
	maxProof     = 30 * time.Second // the longest such pause
	firstRefusal = 10 * time.Second // for which a partition is first refused
	maxRefusal   = 5 * time.Minute  // the longest refusal
	calm         = time.Minute      // time without trouble after which past failures are forgotten
)

// backoff doubles from first up to most.
func backoff(first, most time.Duration, tries int) time.Duration {
	return min(most, first<<min(tries, 16))
}

// fitness is what a node knows about its ability to own partitions. It is fit once it has proven that it can
// claim and commit. It is unfit when it has failed to for some time during which the store answered: if the
// store is away no node is unfit.
type fitness struct {
	ttl      time.Duration
	requests chan struct{} // capacity 1; full when a proof is requested

	mu      sync.Mutex
	fit     bool
	reason  string        // why it is unfit
	failing time.Duration // since when proofs have failed; 0 if the last one succeeded
	proven  time.Duration // when the last successful proof began
	became  time.Duration // when it last became fit
	tries   int           // proofs that failed since the last calm
	refused map[int]*refusal
}

// refusal is about one partition that the node could not serve although it is fit.
type refusal struct {
	until  time.Duration
	tries  int
	reason string
	active bool
	served time.Duration // since when it is served again; 0 = it is not
}

func newFitness(ttl time.Duration) *fitness {
	return &fitness{ttl: ttl, requests: make(chan struct{}, 1), refused: map[int]*refusal{}}
}

// requestProof requests a proof.
func (f *fitness) requestProof() {
	select {
	case f.requests <- struct{}{}:
	default:
	}
}

// report returns what the node should say of itself.
func (f *fitness) report() (fit bool, reason string, refuses []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p, r := range f.refused {
		if r.active {
			refuses = append(refuses, p)
		}
	}
	slices.Sort(refuses)
	if f.fit && len(refuses) > 0 {
		return true, fmt.Sprintf("partition %d: %s", refuses[0], f.refused[refuses[0]].reason), refuses
	}
	return f.fit, f.reason, refuses
}

// record takes the outcome of a proof that began at began; answering is since when the store has answered
// everything else. It returns whether the node has become fit or unfit, and the pause before the next proof;
// 0 = none until there is a reason.
func (f *fitness) record(began, now, answering time.Duration, err error) (changed bool, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		if changed = !f.fit; changed {
			f.became = now
		}
		f.fit, f.reason, f.failing, f.proven = true, "", 0, began
		return changed, 0
	}
	if f.failing == 0 {
		f.failing = began
	}
	switch {
	case !f.fit:
		changed = f.reason == ""
	case !lasts(f.failing, now, answering, f.ttl):
		return false, f.ttl / proofParts
	default:
		changed = true
		if now-f.became >= calm {
			f.tries = 0
		}
	}
	f.fit, f.reason = false, err.Error()
	f.tries++
	return changed, backoff(firstProof, maxProof, f.tries-1)
}

// lasts reports whether something has failed for so long, while the store answered everything else, that it
// is the node's own fault.
func lasts(since, until, answering, ttl time.Duration) bool {
	return answering != notAnswering && until-max(since, answering) >= ttl/unfitParts
}

// watch looks at what the engine fails on and what it serves. It requests a proof if there is a reason to,
// and begins to refuse partitions that the node could not serve although its proof succeeded. It returns
// these.
func (f *fitness) watch(failing []health.Failure, serves map[int]bool,
	now, answering time.Duration) (begun []health.Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(failing) > 0 || !f.fit && len(serves) > 0 {
		f.requestProof()
	}
	f.recover(serves, now)
	for _, x := range failing {
		until := now - x.Ago
		since := until - x.For
		r := f.refused[x.Partition]
		proven := f.fit && f.failing == 0 && f.proven >= since
		if !proven || r != nil && r.active || !lasts(since, until, answering, f.ttl) {
			continue
		}
		if r == nil {
			r = &refusal{}
			f.refused[x.Partition] = r
		}
		r.active, r.reason, r.served = true, x.Err.Error(), 0
		r.until = now + backoff(firstRefusal, maxRefusal, r.tries)
		r.tries++
		begun = append(begun, x)
	}
	return begun
}

// recover ends refusals whose time is over, and forgets those after which the partition has been served for
// long.
func (f *fitness) recover(serves map[int]bool, now time.Duration) {
	maps.DeleteFunc(f.refused, func(p int, r *refusal) bool {
		r.active = r.active && now < r.until
		switch {
		case !serves[p]:
			r.served = 0
		case r.served == 0:
			r.served = now
		}
		return !r.active && (r.served > 0 && now-r.served >= calm || now-r.until >= 2*maxRefusal)
	})
}
