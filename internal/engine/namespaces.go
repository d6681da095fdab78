package engine

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// smallNamespace is the kind of the small records that hold the settings of namespaces, by name. Each is in the partition of
// the namespace's empty job name.
const smallNamespace = 'n'

// settings is what is set for namespaces, as all partitions of the node see it. What is in it is never changed.
type settings struct {
	mu     sync.RWMutex
	byName map[string]*carillon.Namespace
}

func newSettings() *settings { return &settings{byName: map[string]*carillon.Namespace{}} }

// get is what is set for a namespace; nil is nothing.
func (s *settings) get(namespace string) *carillon.Namespace {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byName[namespace]
}

func (s *settings) set(n *carillon.Namespace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[n.Name] = n
}

// retain forgets what is set for namespaces that keep does not want.
func (s *settings) retain(keep func(name string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.byName, func(name string, _ *carillon.Namespace) bool { return !keep(name) })
}

// limit is the limit of a key; limited is false if it has none.
func (s *settings) limit(l partition.Limit) (most int, limited bool) {
	n := s.get(l.Namespace)
	if n == nil {
		return 0, false
	}
	most, limited = n.Limits[l.Key]
	return most, limited
}

// strict refuses a job that a strict namespace does not take.
func (s *settings) strict(job *carillon.Job) error {
	if n := s.get(job.Namespace); n == nil || !n.Strict {
		return nil
	}
	return carillon.CheckRetryWindow(job)
}

// loadSettings reads the settings that the partition's store holds.
func (p *owned) loadSettings(shard store.Shard) error {
	all, err := allSmall(p.ctx, shard, smallNamespace)
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, small := range all {
		n, err := store.DecodeNamespace(small.Value, small.Key)
		if err != nil {
			return fmt.Errorf("settings of namespace %q: %w", small.Key, err)
		}
		kept[n.Name] = true
		p.e.settings.set(&n)
	}
	p.e.settings.retain(func(name string) bool { return kept[name] || p.e.settingsOf(name) != p })
	p.e.limiter.changed("")
	return nil
}

// settingsOf is the partition that keeps the settings of a namespace.
func (e *Engine) settingsOf(namespace string) *owned {
	return e.partitionOf(carillon.Key{Namespace: namespace})
}

// namespaceName checks a name, or fills in the default.
func namespaceName(name string) (string, error) {
	if name == "" {
		name = carillon.DefaultNamespace
	}
	n := carillon.Namespace{Name: name}
	return name, n.Validate() // so that the error is about the field name
}

// GetNamespace is what is set for a namespace; see [carillon.Namespaces].
func (e *Engine) GetNamespace(ctx context.Context, name string) (carillon.Namespace, error) {
	name, err := namespaceName(name)
	if err != nil {
		return carillon.Namespace{}, err
	}
	return ask(ctx, e.settingsOf(name), call{}, func(p *owned, _ int64) (carillon.Namespace, error) {
		n := carillon.Namespace{Name: name}
		if set := p.e.settings.get(name); set != nil {
			n = *set
			n.Limits = maps.Clone(set.Limits)
		}
		return n, nil
	})
}

// PutNamespace sets what holds for a namespace, all of it; see [carillon.Namespaces].
func (e *Engine) PutNamespace(ctx context.Context, n carillon.Namespace) (carillon.Namespace, error) {
	var err error
	if n.Name, err = namespaceName(n.Name); err != nil {
		return carillon.Namespace{}, err
	}
	if err := n.Validate(); err != nil {
		return carillon.Namespace{}, err
	}
	set := n
	set.Limits = maps.Clone(n.Limits)
	return ask(ctx, e.settingsOf(n.Name), call{}, func(p *owned, _ int64) (carillon.Namespace, error) {
		small := store.Small{Kind: smallNamespace, Key: n.Name}
		if set.Strict || len(set.Limits) > 0 { // otherwise nothing need be stored
			small.Value = store.EncodeNamespace(&set)
		}
		p.m.Write(small)
		p.reply(p.m.After(), func(failed error) { // in the order of the batches, and before the caller is answered
			if failed == nil {
				e.settings.set(&set)
				e.limiter.changed(n.Name)
			}
		})
		return n, nil
	})
}
