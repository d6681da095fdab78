package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// Settings of namespaces are metadata records (store.KindNamespace), by name. A namespace's record is in the
// partition to which the empty job name of the namespace belongs.

// settings holds the settings of namespaces for all partitions of the node. Settings kept in partitions of
// other nodes may be some seconds old, see settings.go. Stored values are never changed.
type settings struct {
	mu     sync.RWMutex
	byName map[string]*carillon.Namespace
}

func newSettings() *settings { return &settings{byName: map[string]*carillon.Namespace{}} }

// get returns the settings of a namespace; nil if there are none.
func (s *settings) get(namespace string) *carillon.Namespace {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byName[namespace]
}

// inForce returns the settings of a namespace, or the defaults. The map of limits is shared.
func (s *settings) inForce(name string) carillon.Namespace {
	if n := s.get(name); n != nil {
		return *n
	}
	return carillon.Namespace{Name: name, Generation: 1}
}

func (s *settings) set(n *carillon.Namespace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[n.Name] = n
}

// replace takes over what was read of the namespaces that own selects, unless counts reports that it is out
// of date. It returns the names of the namespaces that have changed.
func (s *settings) replace(own func(name string) bool, read map[string]*carillon.Namespace,
	counts func() bool) (changed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !counts() { // asked under the lock, so that a put from here on comes after it
		return nil
	}
	for name := range s.byName {
		if own(name) && read[name] == nil {
			delete(s.byName, name)
			changed = append(changed, name)
		}
	}
	for name, n := range read {
		if old := s.byName[name]; old == nil || old.Generation != n.Generation || old.Strict != n.Strict ||
			!maps.Equal(old.ConcurrencyLimits, n.ConcurrencyLimits) {
			s.byName[name] = n
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed
}

// limit returns the limit of a key; limited is false if it has none.
func (s *settings) limit(l delivery.Limit) (most int, limited bool) {
	n := s.get(l.Namespace)
	if n == nil {
		return 0, false
	}
	most, limited = n.ConcurrencyLimits[l.Key]
	return most, limited
}

// strict refuses a job that a strict namespace does not accept.
func (s *settings) strict(job *carillon.Job) error {
	if n := s.get(job.Namespace); n == nil || !n.Strict {
		return nil
	}
	return plan.CheckRetryWindow(job)
}

// decodeSettings decodes settings, by name.
func decodeSettings(all []store.MetaRecord) (map[string]*carillon.Namespace, error) {
	kept := make(map[string]*carillon.Namespace, len(all))
	for _, r := range all {
		n, err := codec.DecodeNamespace(r.Value, r.Key)
		if err != nil {
			return nil, fmt.Errorf("settings of namespace %q: %w", r.Key, err)
		}
		n.Generation = max(n.Generation, 1) // records written before there were generations have 0
		kept[n.Name] = &n
	}
	return kept, nil
}

// namespaceName fills in the default and validates a name.
func namespaceName(name string) (string, error) {
	name = namespaceOf(name)
	n := carillon.Namespace{Name: name}
	return name, n.Validate() // a validated Namespace, so that the error is about the field name
}

// namespaces implements [carillon.Namespaces], and keeps the settings of other nodes' partitions up to date
// (settings.go).
type namespaces struct {
	partitions *partitions
	settings   *settings
	missed     bell // announced settings could not be read
}

// GetNamespace returns the settings of a namespace; see [carillon.Namespaces].
func (ns *namespaces) GetNamespace(ctx context.Context, name string) (carillon.Namespace, error) {
	name, err := namespaceName(name)
	if err != nil {
		return carillon.Namespace{}, err
	}
	return inRound(ctx, ns.partitions.ofNamespace(name), call{},
		func(p *partitionRunner, _ int64) (carillon.Namespace, error) {
			n := ns.settings.inForce(name)
			n.ConcurrencyLimits = maps.Clone(n.ConcurrencyLimits)
			return n, nil
		})
}

// PutNamespace replaces all settings of a namespace; see [carillon.Namespaces].
func (ns *namespaces) PutNamespace(ctx context.Context, n carillon.Namespace) (carillon.Namespace, error) {
	var err error
	if n.Name, err = namespaceName(n.Name); err != nil {
		return carillon.Namespace{}, err
	}
	if err := n.Validate(); err != nil {
		return carillon.Namespace{}, err
	}
	n.ConcurrencyLimits = maps.Clone(n.ConcurrencyLimits)
	return inRound(ctx, ns.partitions.ofNamespace(n.Name), call{},
		func(p *partitionRunner, _ int64) (carillon.Namespace, error) {
			old := p.settings.unsettled[n.Name]
			if old == nil {
				old = new(ns.settings.inForce(n.Name))
			}
			put, err := n.Over(*old)
			if err == nil && put.Generation != old.Generation {
				p.putNamespace(put)
			}
			put.ConcurrencyLimits = maps.Clone(put.ConcurrencyLimits)
			return put, err
		})
}

// putNamespace writes settings. They are written even if nothing is set any more, because a generation is
// never used again.
func (p *partitionRunner) putNamespace(n carillon.Namespace) {
	p.m.Write(store.MetaRecord{Kind: store.KindNamespace, Key: n.Name, Value: codec.EncodeNamespace(&n)})
	settled := p.settings.put(&n)
	p.replies.await(p.m.After(), func(failed error) { // in the order of the batches
		settled(failed)
		if failed == nil && p.e.cfg.Announce != nil {
			p.e.cfg.Announce(n.Name)
		}
	})
}
