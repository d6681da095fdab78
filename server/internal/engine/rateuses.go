package engine

import (
	"cmp"
	"slices"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/permit"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
)

// RateUse says how a rate stands: of a concurrency key, or, without a key, the quota of a namespace.
type RateUse struct {
	Namespace, Key string
	// Home: this node hands out the permits, and says how many are Left of the most that there can be.
	Home        bool
	Left, Burst int
	Waiting     int // runs of this node's partitions that wait in memory for a permit
}

// rateFigures are what a partition shows of rates.
type rateFigures struct {
	handedOut []permit.RateUse
	waiting   []partition.RateLine
}

// RateUses returns the rates that are set, ordered by namespace and key, as of the last second.
func (e *Engine) RateUses() []RateUse {
	left, waiting := map[delivery.Limit]int{}, map[delivery.Limit]int{}
	for _, p := range e.parts {
		f := p.figures.rates.Load()
		if f == nil {
			continue
		}
		for _, u := range f.handedOut {
			left[u.Limit] = u.Left
		}
		for _, w := range f.waiting {
			waiting[w.Limit] += w.N
		}
	}
	all := e.settings.rates()
	for i := range all {
		u := &all[i]
		l := delivery.RateLimit(u.Namespace, u.Key)
		u.Waiting = waiting[l]
		// A home that has shown nothing yet does not say that all is left.
		home := e.parts[permitrecord.HomeOf(l, len(e.parts))]
		if u.Home = home.own.holds() && home.figures.rates.Load() != nil; !u.Home {
			continue
		}
		u.Left = u.Burst
		if n, some := left[l]; some {
			u.Left = min(n, u.Burst)
		}
	}
	return all
}

// rates returns the rates of all namespaces, ordered.
func (s *settings) rates() (all []RateUse) {
	rated := s.rated.Load()
	if rated == nil {
		return nil
	}
	note := func(namespace, key string) {
		if r, limited := s.rate(delivery.RateLimit(namespace, key)); limited {
			all = append(all, RateUse{Namespace: namespace, Key: key, Burst: int(r.Burst)})
		}
	}
	for namespace, n := range *rated {
		note(namespace, "")
		for key := range n.RateLimits {
			note(namespace, key)
		}
	}
	slices.SortFunc(all, func(a, b RateUse) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Key, b.Key))
	})
	return all
}

// showRates publishes how the rates stand.
func showRates(p *partitionRunner) {
	f := &rateFigures{waiting: p.m.Permits.RateLines()}
	if p.permits != nil {
		p.permits.tick()
		f.handedOut = p.permits.home.Rates()
	}
	p.figures.rates.Store(f)
}
