package engine

import (
	"math"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/permit"
)

// Rates, of concurrency keys and of namespaces, hold through restarts and takeovers, so a home counts them in
// the store also where a node is alone (docs/decisions/0101).

// rateLimiter is the limiter of a partition of a node that is alone: permits of rates come from their home,
// all others from the node's counter.
type rateLimiter struct {
	share
	pool *permit.Pool
}

// Take implements [partition.Limiter].
func (r rateLimiter) Take(l delivery.Line) (ok, limited bool) {
	if l.IsRate() {
		return r.pool.Take(l)
	}
	return r.share.Take(l)
}

// Free implements [partition.Limiter].
func (r rateLimiter) Free(l delivery.Limit) {
	if l.IsRate() {
		r.pool.Free(l)
		return
	}
	r.share.Free(l)
}

// Spend implements [partition.Limiter].
func (r rateLimiter) Spend(l delivery.Limit) { r.pool.Spend(l) }

// Wait implements [partition.Limiter].
func (r rateLimiter) Wait(l delivery.Line, order int64, want int) {
	if l.IsRate() {
		r.pool.Wait(l, order, want)
		return
	}
	r.share.Wait(l, order, want)
}

// Pass implements [partition.Limiter].
func (r rateLimiter) Pass(l delivery.Line) {
	if l.IsRate() {
		r.pool.Pass(l)
		return
	}
	r.share.Pass(l)
}

// Leave implements [partition.Limiter].
func (r rateLimiter) Leave(l delivery.Line) {
	if l.IsRate() {
		r.pool.Leave(l)
		return
	}
	r.share.Leave(l)
}

// findRated finds the namespaces that have rates or quotas of attempts. The caller holds mu.
func (s *settings) findRated() {
	var rated map[string]*carillon.Namespace
	for name, n := range s.byName {
		if len(n.RateLimits) > 0 || n.Quotas.Runs.Count > 0 || n.Quotas.ConcurrentRuns > 0 {
			if rated == nil {
				rated = map[string]*carillon.Namespace{}
			}
			rated[name] = n
		}
	}
	s.rated.Store(&rated)
}

// ratedOf returns the settings of a namespace that has rates or quotas of attempts, else nil.
func (s *settings) ratedOf(namespace string) *carillon.Namespace {
	if rated := s.rated.Load(); rated != nil {
		return (*rated)[namespace]
	}
	return nil
}

// rate returns a rate, with its defaults; limited is false if it is not set.
func (s *settings) rate(l delivery.Limit) (r carillon.Rate, limited bool) {
	key, _ := l.Rate()
	switch n := s.ratedOf(l.Namespace); {
	case n == nil:
	case key == "":
		r = n.Quotas.Runs
	default:
		r = n.RateLimits[key]
	}
	return r.WithDefaults(), r.Count > 0
}

// limitsKey reports whether a concurrency key has a limit or a rate.
func (s *settings) limitsKey(l delivery.Limit) bool {
	_, limited := s.limit(l)
	_, rated := s.rate(delivery.RateLimit(l.Namespace, l.Key))
	return limited || rated
}

// quota returns how many attempts of a namespace may be in force; limited is false if any number.
func (s *settings) quota(namespace string) (most int, limited bool) {
	n := s.ratedOf(namespace)
	if n == nil || n.Quotas.ConcurrentRuns == 0 {
		return 0, false
	}
	return int(min(n.Quotas.ConcurrentRuns, math.MaxInt32)), true
}
