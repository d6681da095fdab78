package telemetry

import "github.com/carillonhq/carillon/server/internal/delivery"

// Rate is how a rate stands: of a concurrency key, or, without a key, the quota of a namespace.
type Rate struct {
	Namespace, Key string
	// Home: this node hands out the permits, and says how many are Left of the most that there can be.
	Home        bool
	Left, Burst int
	Waiting     int // runs that wait for a permit here
}

// boundedRates is [limits.bounded] of rates.
func (s *limits) boundedRates(all []Rate) []Rate {
	other := Rate{Namespace: Other, Key: Other}
	name := func(r *Rate) delivery.Limit { return delivery.Limit{Namespace: r.Namespace, Key: r.Key} }
	out, more := split(s, all, name, func(r *Rate) {
		other.Home = other.Home || r.Home
		other.Left, other.Burst = other.Left+r.Left, other.Burst+r.Burst
		other.Waiting += r.Waiting
	})
	if !more {
		return out
	}
	return append(out, other)
}

// showRates shows how the rates stand. Only the home of one knows its permits.
func (c *collector) showRates(show func(name string, n int, labels ...string)) {
	for _, r := range c.rates.boundedRates(c.sources.Rates()) {
		show(rateWaiting, r.Waiting, r.Namespace, r.Key)
		if !r.Home {
			continue
		}
		show(rateLeft, r.Left, r.Namespace, r.Key)
		show(rateBurst, r.Burst, r.Namespace, r.Key)
	}
}
