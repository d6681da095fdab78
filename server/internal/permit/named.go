package permit

import (
	"maps"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
)

// Bounds on what sidecars may name at a time, over all of their streams.
const (
	// Of one node.
	MaxNamed      = 1 << 16 // different limits
	MaxNamedBytes = 4 << 20 // of their namespaces and names, so that a table fits into a message
	MaxNamings    = 1 << 18 // limits, counted once for each stream that names them
	// Of all nodes: the sum over their tables, as far as they have told. Nodes that have not heard of each
	// other may exceed them together, each by its own bounds.
	MaxNamedByAll      = 4 * MaxNamed
	MaxNamedBytesByAll = 4 * MaxNamedBytes
)

// Named is the limits that sidecars have named: those of this node, and of the other nodes as they have told.
// A limit is in force as long as one stream lives that has named it. Of several numbers the newest of a
// living stream counts.
type Named struct {
	own     map[delivery.Limit][]*naming // of each limit the oldest first
	bytes   int                          // of own
	namings int                          // in own
	version uint64                       // grows whenever the newest of own changes
	newest  int64                        // stamp of all that it knows of, here and elsewhere
	others  map[message.Process]*heard
	inForce map[delivery.Limit]delivery.NamedLimit
}

// naming is what one stream has named for one limit.
type naming struct {
	limit delivery.Limit // all namings of it share the memory of its name
	most  int
	stamp int64
}

// heard is what another node has told.
type heard struct {
	version uint64
	limits  map[delivery.Limit]delivery.NamedLimit
	bytes   int   // of limits
	at      int64 // when it last did
}

// NewNamed makes an empty table.
func NewNamed() *Named {
	return &Named{own: map[delivery.Limit][]*naming{}, others: map[message.Process]*heard{},
		inForce: map[delivery.Limit]delivery.NamedLimit{}}
}

// Stream is what one stream has named.
type Stream struct{ named []*naming }

// Limit returns the number in force; limited is false if no stream names the limit.
func (t *Named) Limit(l delivery.Limit) (most int, limited bool) {
	n, limited := t.inForce[l]
	return n.Most, limited
}

// All returns the limits in force, ordered.
func (t *Named) All() []delivery.NamedLimit {
	return slices.SortedFunc(maps.Values(t.inForce),
		func(a, b delivery.NamedLimit) int { return a.Limit.Compare(b.Limit) })
}

// Name takes the limits of a stream that begins at now (UTC ns), all or none. Of a limit that it names
// several times the last counts. It returns the namespaces whose limits have changed.
func (t *Named) Name(now int64, limits []delivery.NamedLimit) (s *Stream, changed []string, err error) {
	s = &Stream{}
	stamp := max(now, t.newest+1)
	count, bytes := len(t.own), t.bytes
	mine := make(map[delivery.Limit]*naming, len(limits))
	for _, l := range limits {
		n := mine[l.Limit]
		if n == nil {
			n = &naming{limit: l.Limit, stamp: stamp}
			if others := t.own[l.Limit]; len(others) > 0 {
				n.limit = others[0].limit
			} else {
				count, bytes = count+1, bytes+sizeOf(l.Limit)
			}
			mine[l.Limit], s.named = n, append(s.named, n)
		}
		n.most = l.Most
	}
	if err := t.refuse(count, bytes, t.namings+len(s.named)); err != nil {
		return nil, nil, err
	}
	if len(s.named) == 0 {
		return s, nil, nil
	}
	t.newest, t.bytes = stamp, bytes
	t.namings += len(s.named)
	t.version++
	for _, n := range s.named {
		t.own[n.limit] = append(t.own[n.limit], n)
		changed = append(changed, t.settle(n.limit)...)
	}
	return s, compacted(changed), nil
}

// refuse returns an error if the sidecars of this node, or of all, would name more than they may. A stream
// that names nothing is never refused, nor for what others name one that adds nothing to the table.
func (t *Named) refuse(count, bytes, namings int) error {
	if namings == t.namings {
		return nil
	}
	allCount, allBytes := count, bytes
	for _, h := range t.others {
		allCount, allBytes = allCount+len(h.limits), allBytes+h.bytes
	}
	const field = "concurrency_limits"
	switch {
	case count > MaxNamed || bytes > MaxNamedBytes:
		return carillon.Errorf(carillon.ResourceExhausted, field,
			"the sidecars of this node would name %d limits, of %d bytes; at most %d, of %d bytes, are possible",
			count, bytes, MaxNamed, MaxNamedBytes)
	case namings > MaxNamings:
		return carillon.Errorf(carillon.ResourceExhausted, field,
			"the streams to this node would name limits %d times, each counted by itself; at most %d are possible",
			namings, MaxNamings)
	case count > len(t.own) && (allCount > MaxNamedByAll || allBytes > MaxNamedBytesByAll):
		return carillon.Errorf(carillon.ResourceExhausted, field,
			"the sidecars of all nodes would name %d limits, of %d bytes; at most %d, of %d bytes, are possible, "+
				"where a limit counts once for each node", allCount, allBytes, MaxNamedByAll, MaxNamedBytesByAll)
	}
	return nil
}

// End removes what a stream has named, once. It returns the namespaces whose limits have changed.
func (t *Named) End(s *Stream) (changed []string) {
	if len(s.named) == 0 {
		return nil
	}
	t.version++
	t.namings -= len(s.named)
	for _, n := range s.named {
		l := n.limit
		left := slices.DeleteFunc(t.own[l], func(o *naming) bool { return o == n })
		if t.own[l] = left; len(left) == 0 {
			delete(t.own, l)
			t.bytes -= sizeOf(l)
		}
		changed = append(changed, t.settle(l)...)
	}
	s.named = nil
	return compacted(changed)
}

// Own returns what the streams of this node have named, ordered by limit, and its version.
func (t *Named) Own() (limits []delivery.NamedLimit, version uint64) {
	for l, ns := range t.own {
		n := ns[len(ns)-1]
		limits = append(limits, delivery.NamedLimit{Limit: l, Most: n.most, Stamp: n.stamp})
	}
	slices.SortFunc(limits, func(a, b delivery.NamedLimit) int { return a.Limit.Compare(b.Limit) })
	return limits, t.version
}

// Version returns that of what Own returns.
func (t *Named) Version() uint64 { return t.version }

// Hear takes the table of another node, at now. An older version than that which it knows is ignored. It
// returns the namespaces whose limits have changed.
func (t *Named) Hear(now int64, table *message.LimitTable) (changed []string) {
	from := table.Process()
	before := t.others[from]
	if before == nil {
		before = &heard{}
	}
	before.at = now
	if before.limits != nil && table.Version <= before.version {
		return nil
	}
	limits, bytes := make(map[delivery.Limit]delivery.NamedLimit, len(table.Limits)), 0
	for _, l := range table.Limits {
		limits[l.Limit] = l
		bytes += sizeOf(l.Limit)
		t.newest = max(t.newest, l.Stamp)
	}
	t.others[from] = &heard{version: table.Version, limits: limits, bytes: bytes, at: now}
	for l := range before.limits {
		if _, still := limits[l]; !still {
			changed = append(changed, t.settle(l)...)
		}
	}
	for l := range limits {
		changed = append(changed, t.settle(l)...)
	}
	return compacted(changed)
}

// KeepFor is how long the table of a node counts that is no member, in ns: one that joins may be heard of
// before it is seen among the members.
const KeepFor = int64(10e9)

// Keep forgets the tables of nodes that are no members any more. It returns the namespaces whose limits have
// changed.
func (t *Named) Keep(now int64, member func(message.Process) bool) (changed []string) {
	for p, h := range t.others {
		if member(p) || now-h.at < KeepFor {
			continue
		}
		delete(t.others, p)
		for l := range h.limits {
			changed = append(changed, t.settle(l)...)
		}
	}
	return compacted(changed)
}

// settle finds out which number of a limit is in force. It returns the limit's namespace if that has changed.
func (t *Named) settle(l delivery.Limit) (changed []string) {
	before, was := t.inForce[l]
	var best delivery.NamedLimit
	found := false
	consider := func(n delivery.NamedLimit) {
		// Of two that two nodes have stamped alike the lower one counts, on all nodes.
		if !found || n.Stamp > best.Stamp || n.Stamp == best.Stamp && n.Most < best.Most {
			best, found = n, true
		}
	}
	if ns := t.own[l]; len(ns) > 0 {
		n := ns[len(ns)-1]
		consider(delivery.NamedLimit{Limit: l, Most: n.most, Stamp: n.stamp})
	}
	for _, h := range t.others {
		if n, names := h.limits[l]; names {
			consider(n)
		}
	}
	if t.inForce[l] = best; !found {
		delete(t.inForce, l)
	}
	if found == was && best.Most == before.Most {
		return nil
	}
	return []string{l.Namespace}
}

func sizeOf(l delivery.Limit) int { return len(l.Namespace) + len(l.Key) }

// compacted returns the names in order, each once.
func compacted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
