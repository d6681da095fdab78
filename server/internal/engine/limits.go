package engine

import (
	"slices"
	"sync"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/permit"
)

// limiter counts permits over all partitions of a node that is alone. Its partitions begin and end together,
// so the counts are in memory only. In a cluster partitions have pools (clusterpermits.go).
type limiter struct {
	partitions *partitions
	limitOf    func(delivery.Limit) (most int, limited bool)

	mu sync.Mutex
	c  *permit.Counter
}

// locked calls f with the counter, under the lock.
func (m *limiter) locked(f func(c *permit.Counter)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.c)
}

// limitsChanged has the limits of a namespace checked again; "" stands for all namespaces.
func (m *limiter) limitsChanged(namespace string) {
	if m.partitions.peers == nil {
		m.locked(func(c *permit.Counter) { c.Changed(namespace) })
	}
	for _, p := range m.partitions.parts {
		if p.own.holds() {
			p.box.put(func(in *mail) { in.limits = append(in.limits, namespace) })
		}
	}
}

// settingsChanged has the settings of a namespace applied: its limits, and its quotas.
func (e *Engine) settingsChanged(namespace string) {
	e.quotas.forget(namespace)
	e.quotas.homes.changed(namespace)
	e.limiter.limitsChanged(namespace)
}

// checkLimits looks again at the limits of namespaces that have changed.
func (p *partitionRunner) checkLimits(namespaces []string) {
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		p.m.Usage.Changed(namespace)
		p.m.Permits.ForgoKept(namespace)
		p.permits.changed(namespace)
	}
}

// LimitOf returns the limit of a key: those of Dapr's actor types are what sidecars have named, all others
// settings of their namespaces.
func (e *Engine) LimitOf(l delivery.Limit) (most int, limited bool) {
	if l.Named() {
		return e.namedLimits.limit(l)
	}
	return e.settings.limit(l)
}

// share is the limiter as one partition uses it.
type share struct {
	*limiter
	p int
}

// Take implements [partition.Limiter].
func (s share) Take(line delivery.Line) (ok, limited bool) {
	if _, limited = s.limitOf(line.Limit); !limited {
		return true, false // without the lock, which all partitions share
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c.Take(s.p, line)
}

// Free implements [partition.Limiter].
func (s share) Free(key delivery.Limit) {
	s.locked(func(c *permit.Counter) { c.Free(s.p, key) })
}

// Wait implements [partition.Limiter].
func (s share) Wait(line delivery.Line, order int64, want int) {
	s.locked(func(c *permit.Counter) { c.Wait(s.p, line, order, want) })
}

// Pass implements [partition.Limiter].
func (s share) Pass(line delivery.Line) {
	s.locked(func(c *permit.Counter) { c.Pass(s.p, line) })
}

// Leave implements [partition.Limiter].
func (s share) Leave(line delivery.Line) {
	s.locked(func(c *permit.Counter) { c.Leave(s.p, line) })
}

// reservedPermits tells a partition that n permits are reserved for the line, or that it is not limited any
// more.
type reservedPermits struct {
	line delivery.Line
	n    int
}

// sendPermits sends permit news to a partition.
func (ps *partitions) sendPermits(p int, l delivery.Line, n int) {
	ps.parts[p].box.put(func(m *mail) { m.permits = append(m.permits, reservedPermits{l, n}) })
}
