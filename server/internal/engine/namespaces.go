package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// Settings of namespaces are metadata records (store.KindNamespace), by name. A namespace's record is in the
// partition to which the empty job name of the namespace belongs.

// settings holds the settings of namespaces, and their calendars, for all partitions of the node. What
// partitions of other nodes keep may be some seconds old, see follow. Stored values are never changed.
type settings struct {
	mu        sync.RWMutex
	byName    map[string]*carillon.Namespace
	calendars map[string]map[string]*calendar // by namespace and name

	hooked atomic.Pointer[hooked] // of byName; nil: no namespace has webhooks
	// Those of byName that have rates or quotas of attempts.
	rated atomic.Pointer[map[string]*carillon.Namespace]
}

// hooked are the namespaces that have webhooks. It does not change.
type hooked struct {
	namespaces []*carillon.Namespace
	wanted     map[carillon.EventType]bool // types that they ask for
}

func newSettings() *settings {
	return &settings{byName: map[string]*carillon.Namespace{}, calendars: map[string]map[string]*calendar{}}
}

// get returns the settings of a namespace; nil if there are none.
func (s *settings) get(namespace string) *carillon.Namespace {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byName[namespace]
}

// inForce returns the settings of a namespace, or the defaults. Its maps and lists are shared.
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
	s.findHooked()
	s.findRated()
}

// findHooked finds the namespaces that have webhooks. The caller holds mu.
func (s *settings) findHooked() {
	h := hooked{wanted: map[carillon.EventType]bool{}}
	for _, n := range s.byName {
		if len(n.Webhooks) > 0 {
			h.namespaces = append(h.namespaces, n)
		}
		for i := range n.Webhooks {
			for _, t := range carillon.EventTypes() {
				h.wanted[t] = h.wanted[t] || n.Webhooks[i].Asks(t)
			}
		}
	}
	if h.namespaces == nil {
		s.hooked.Store(nil)
		return
	}
	s.hooked.Store(&h)
}

// wanted reports whether webhooks ask for events of a type, or, of "", whether there are any.
func (s *settings) wanted(t carillon.EventType) bool {
	h := s.hooked.Load()
	return h != nil && (t == "" || h.wanted[t])
}

// replace takes over what was read of the namespaces that own selects, unless old reports that it is out of
// date. It returns the names of the namespaces whose settings have changed.
func (s *settings) replace(own func(name string) bool, read *kept, old func() bool) (changed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old() { // asked under the lock, so that a put from here on comes after it
		return nil
	}
	s.replaceCalendars(own, read.calendars)
	for name := range s.byName {
		if own(name) && read.namespaces[name] == nil {
			delete(s.byName, name)
			changed = append(changed, name)
		}
	}
	for name, n := range read.namespaces {
		if was := s.byName[name]; was == nil || was.Generation != n.Generation || !was.SetsLike(n) {
			s.byName[name] = n
			changed = append(changed, name)
		}
	}
	if len(changed) > 0 {
		s.findHooked()
		s.findRated()
	}
	slices.Sort(changed)
	return changed
}

// limit returns the limit of a key; limited is false if it has none. That of a rate is its burst.
func (s *settings) limit(l delivery.Limit) (most int, limited bool) {
	switch {
	case l.IsRate():
		r, limited := s.rate(l)
		return int(r.Burst), limited
	case l.IsQuota():
		return s.quota(l.Namespace)
	}
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

// namespaces implements [carillon.Namespaces], and keeps the settings of other nodes' partitions up to date.
type namespaces struct {
	partitions *partitions
	settings   *settings
	cfg        *Config
	quotas     *quotaHomes
	missed     bell // announced settings could not be read
}

// Hooked returns the namespaces that have webhooks, in no order. They must not be changed.
func (ns *namespaces) Hooked() []*carillon.Namespace {
	if h := ns.settings.hooked.Load(); h != nil {
		return h.namespaces
	}
	return nil
}

// UnservedAfter returns for how long a queue of a namespace must be unserved to be told of.
func (ns *namespaces) UnservedAfter(namespace string) time.Duration {
	n := ns.settings.inForce(namespace)
	return cmp.Or(n.UnservedAfter, carillon.DefaultUnservedAfter)
}

// GetNamespace returns the settings of a namespace; see [carillon.Namespaces].
func (ns *namespaces) GetNamespace(ctx context.Context, name string) (carillon.Namespace, error) {
	name, err := namespaceName(name)
	if err != nil {
		return carillon.Namespace{}, err
	}
	n, err := inRound(ctx, ns.partitions.ofNamespace(name), call{},
		func(p *partitionRunner, _ int64) (carillon.Namespace, error) {
			n := ns.settings.inForce(name)
			return n.Clone(), nil
		})
	if err == nil && n.Quotas.Stores() {
		n.Used = ns.quotas.usage(ctx, name)
	}
	return n, err
}

// PutNamespace replaces all settings of a namespace; see [carillon.Namespaces].
func (ns *namespaces) PutNamespace(ctx context.Context, n carillon.Namespace) (carillon.Namespace, error) {
	var err error
	if n.Name, err = namespaceName(n.Name); err != nil {
		return carillon.Namespace{}, err
	}
	if err := cmp.Or(n.Validate(), ns.checkWebhooks(n.Name, n.Webhooks)); err != nil {
		return carillon.Namespace{}, err
	}
	n = n.Clone()
	type change struct {
		to     carillon.Namespace
		quotas bool // of jobs or bytes
	}
	put, err := inRound(ctx, ns.partitions.ofNamespace(n.Name), changing(ctx, call{}),
		func(p *partitionRunner, _ int64) (change, error) {
			old := p.settings.unsettled[n.Name]
			if old == nil {
				old = new(ns.settings.inForce(n.Name))
			}
			put, err := n.Over(*old)
			if err == nil && put.Generation != old.Generation {
				p.putNamespace(put)
			}
			is, was := &put.Quotas, &old.Quotas
			return change{put.Clone(), is.Jobs != was.Jobs || is.PayloadBytes != was.PayloadBytes}, err
		})
	if err == nil && put.quotas && put.to.Quotas.Stores() {
		ns.quotas.enforce(ctx, put.to.Name)
	}
	return put.to, err
}

// largestEvent is more bytes than an event has as a webhook gets it: names of at most 512 bytes, a reason and
// an error of at most 1 KiB, some of whose characters JSON writes with six.
const largestEvent = 16 << 10

// checkWebhooks refuses webhooks whose jobs this node would refuse. A webhook that goes where it went is not
// asked for its secrets: one that was taken back is no reason to refuse other settings.
func (ns *namespaces) checkWebhooks(namespace string, all []carillon.Webhook) error {
	old := ns.settings.inForce(namespace).Webhooks
	for i := range all {
		w := &all[i]
		same := slices.ContainsFunc(old, func(o carillon.Webhook) bool {
			return o.Name == w.Name && o.URL == w.URL && maps.Equal(o.Headers, w.Headers)
		})
		probe := carillon.Job{Namespace: "n", Name: carillon.EventJobs + w.Name, Target: w.Target()}
		err := probe.Validate(ns.cfg.Limits)
		if err == nil {
			err = ns.cfg.supports(&probe.Target)
		}
		if err == nil && !same {
			err = ns.cfg.checkSecrets(namespace, &probe.Target)
		}
		if err != nil {
			return inWebhook(i, err)
		}
		probe.Data = carillon.Bytes(make([]byte, largestEvent), "application/cloudevents+json")
		if err := probe.Validate(ns.cfg.Limits); err != nil {
			return carillon.Errorf(carillon.FailedPrecondition, fmt.Sprintf("webhooks[%d]", i),
				"an event may have %d bytes, and --max-payload of the node allows fewer", largestEvent)
		}
	}
	return nil
}

// inWebhook returns an error about the job that would send the events of a webhook, the one at index i, with
// the name that the field has among the settings.
func inWebhook(i int, err error) error {
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok {
		return err
	}
	field := strings.TrimPrefix(strings.TrimPrefix(e.Field, "target."), "http.")
	return carillon.WithField(err, fmt.Sprintf("webhooks[%d].%s", i, field))
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

// Every node of a cluster applies the settings of all namespaces. It reads those in partitions of other nodes
// when it starts, when their owner announces a change, and periodically in case an announcement was lost.

const (
	// settingsEvery is how often settings in partitions of other nodes are read, unless leases are longer than
	// longLeases: then it is once in the time that two of them last. Such leases say that requests cost money.
	// Changed settings are in force on all nodes within this time, and usually at once.
	settingsEvery = 5 * time.Second
	longLeases    = time.Minute
	// settingsAgain is the pause before reading again if the store did not answer, periodically or after an
	// announcement.
	settingsAgain = 500 * time.Millisecond
)

// settingsPeriod is how often settings are read where leases last so long.
func settingsPeriod(ttl time.Duration) time.Duration {
	if ttl > longLeases {
		return 2 * ttl
	}
	return settingsEvery
}

// followSettings reads the settings, and which queues are paused, periodically until the engine stops.
func (a *api) followSettings() {
	ps := a.namespaces.partitions
	t := time.NewTimer(ps.settings)
	defer t.Stop()
	failing := false
	for {
		select {
		case <-ps.life.Done():
			return
		case <-t.C:
		case <-a.missed:
		}
		ctx, cancel := context.WithTimeout(ps.life, settingsEvery)
		err := errors.Join(a.namespaces.readAll(ctx), a.ReloadQueues(ctx))
		cancel()
		if err == nil {
			failing = false
			t.Reset(ps.settings)
			continue
		}
		if !failing && ps.life.Err() == nil {
			ps.log.Warn("settings of namespaces and queues may be older than they should be", "error", err)
		}
		failing = true
		t.Reset(ps.pauseAfter(err))
	}
}

// pauseAfter is how long the settings are not read after an error. What is damaged does not mend itself.
func (ps *partitions) pauseAfter(err error) time.Duration {
	if errors.Is(err, store.ErrDamaged) {
		return ps.settings
	}
	return min(ps.settings, settingsAgain)
}

// readAll reads the settings of all partitions that this node does not own. It returns the first error.
func (ns *namespaces) readAll(ctx context.Context) error {
	if g, ok := ns.partitions.store.(store.Gatherer); ok {
		err := ns.gather(ctx, ns.partitions.gathererOf(g))
		if !errors.Is(err, errNotGathered) {
			return err
		} // which partition is damaged is not known: the others are read one by one
	}
	errs := make([]error, len(ns.partitions.parts))
	_ = sideBySide(len(errs), func(i int) error {
		p := ns.partitions.parts[i]
		if !p.own.holds() {
			if err := p.settings.follow(ctx); err != nil {
				errs[i] = fmt.Errorf("partition %d: %w", p.number, err)
			}
		}
		return nil // the others are read all the same
	})
	return cmp.Or(errs...)
}

// gather is readAll in one read. If a partition's settings have been read or changed meanwhile, the result is
// dropped for that partition: what is there may be newer. One whose records cannot be decoded keeps what it
// has, and does not keep the others from theirs. The error is the first one.
func (ns *namespaces) gather(ctx context.Context, g store.Gatherer) error {
	var parts []*partitionRunner
	var numbers []int
	var before []uint64
	for _, p := range ns.partitions.parts {
		if !p.own.holds() {
			parts, numbers, before = append(parts, p), append(numbers, p.number), append(before,
				p.settings.taken.Load())
		}
	}
	all, err := g.Gather(ctx, store.KindNamespace, numbers)
	if err != nil {
		return notGathered("settings", err)
	}
	calendars, err := g.Gather(ctx, store.KindCalendar, numbers)
	if err != nil {
		return notGathered("calendars", err)
	}
	for i, p := range parts {
		kept, bad := decodeKept(all[i], calendars[i])
		if bad != nil {
			err = cmp.Or(err, fmt.Errorf("partition %d: %w", p.number, bad))
			continue
		}
		p.settings.takeGathered(kept, before[i])
	}
	return err
}

// errNotGathered is that something is damaged in what was to be gathered, so that there is nothing of it.
var errNotGathered = errors.New("what is damaged keeps them from being read together")

func notGathered(what string, err error) error {
	if errors.Is(err, store.ErrDamaged) {
		err = fmt.Errorf("%w: %w", errNotGathered, err)
	}
	return fmt.Errorf("%s of partitions: %w", what, err)
}

// ReloadNamespace reads the settings of a namespace, because another node has announced a change.
func (ns *namespaces) ReloadNamespace(ctx context.Context, name string) error {
	p := ns.partitions.ofNamespace(name)
	if p.own.holds() {
		return nil
	}
	if err := p.settings.follow(ctx); err != nil {
		ns.missed.ring()
		return readError(err)
	}
	return nil
}
