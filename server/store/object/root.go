package object

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/mackey"
)

// root is the object that says what there is. It is changed as a whole, on condition that nobody else has
// changed it.
type root struct {
	Format int    `json:"format"`
	Secret []byte `json:"secret"` // MACKey; another store has another one
	Write  uint64 `json:"write"`  // drawn by each change
	// Members are the nodes, by id, those too that live no more.
	Members map[string]member `json:"members"`
	// Logs are those that partitions have something in, by id.
	Logs       map[string]logState `json:"logs"`
	Partitions []partition         `json:"partitions"` // by number, with the proving ground
}

// lease is until when something is valid by the store's clock.
type lease struct {
	Until time.Time     `json:"until,omitzero"`
	Given time.Duration `json:"given,omitempty"` // how long it was given for
}

// lasting is a lease of some time from now.
func lasting(now time.Time, ttl time.Duration) lease {
	return lease{now.Add(max(ttl, 0)).UTC(), max(ttl, 0)}
}

// lasts reports whether the lease is valid. One that has longer to go than it was given for, by far, was
// given before the clock was set back.
func (l lease) lasts(now time.Time) bool {
	return l.Given > 0 && now.Before(l.Until) && l.Until.Sub(now) < 2*l.Given+time.Second
}

// member is a node.
type member struct {
	lease

	Address  string `json:"address"`
	HTTP     string `json:"http,omitempty"`
	Sidecars string `json:"sidecars,omitempty"`
	Capacity int    `json:"capacity"`
	Nonce    uint64 `json:"nonce"`
	Settings []byte `json:"settings,omitempty"`
	State    []byte `json:"state,omitempty"`
}

func memberOf(m store.Member, l lease) member {
	return member{l, m.Address, m.HTTP, m.Sidecars, m.Capacity, m.Nonce, []byte(m.Settings), []byte(m.State)}
}

func (m member) named(id string) store.Member {
	return store.Member{ID: id, Address: m.Address, HTTP: m.HTTP, Sidecars: m.Sidecars, Capacity: m.Capacity,
		Nonce: m.Nonce, Settings: string(m.Settings), State: string(m.State)}
}

// logState is what is known of a log.
type logState struct {
	// Next is a segment before which there is no end of the log: a place to look for it.
	Next uint64 `json:"next"`
	// Seal is the number of its seal; 0: it has none, and may go on.
	Seal uint64 `json:"seal,omitempty"`
}

// partition is who owns a partition, and where what it holds is.
type partition struct {
	lease

	Node     string `json:"node,omitempty"`
	Epoch    uint64 `json:"epoch,omitempty"`
	Nonce    uint64 `json:"nonce,omitempty"`
	Released bool   `json:"released,omitempty"` // the term is not in force any more
	// Snapshot is what it held before the first of the spans; the zero value: nothing.
	Snapshot snapshot `json:"snapshot,omitzero"`
	Spans    []span   `json:"spans,omitempty"`
}

func (p *partition) term() store.Term { return store.Term{Epoch: p.Epoch, Nonce: p.Nonce} }

// inForce reports whether a term is that of the owner.
func (p *partition) inForce(t store.Term) bool { return !t.IsZero() && !p.Released && p.term() == t }

// span is a part of a log that has batches of a partition.
type span struct {
	Log string `json:"log"`
	// By is the epoch of the term that began the span. An owner that comes back may go on where its last span
	// has ended, with another's between: the two are told apart by it.
	By   uint64 `json:"by"`
	From uint64 `json:"from"`
	To   uint64 `json:"to,omitempty"` // exclusive; 0: it goes on
}

// empty reports whether nothing can be in the span.
func (s span) empty() bool { return s.To == s.From }

// open returns the log in which the partition goes on; empty: in none.
func (p *partition) open() string {
	if n := len(p.Spans); n > 0 && p.Spans[n-1].To == 0 {
		return p.Spans[n-1].Log
	}
	return ""
}

// close ends the span that goes on. One that has nothing stays if it is the only one: it is the place up to
// which the partition is known to who knows the snapshot.
func (p *partition) close(to uint64) {
	n := len(p.Spans) - 1
	if p.Spans[n].To = max(to, p.Spans[n].From); n > 0 && p.Spans[n].empty() {
		p.Spans = p.Spans[:n]
	}
}

// cut makes a mark in one of the spans the first that counts, and reports whether there is such a span.
func (p *partition) cut(at mark) bool {
	i := slices.IndexFunc(p.Spans, at.within)
	if i < 0 {
		return false
	}
	p.Spans = slices.Clone(p.Spans[i:])
	p.Spans[0].From = at.number
	return true
}

// place is a segment of a log.
type place struct {
	log    string
	number uint64
}

// mark is the segment that counts next, in a span.
type mark struct {
	place
	by uint64
}

// within reports whether a mark is in a span, or at its end.
func (at mark) within(s span) bool {
	return s.Log == at.log && s.By == at.by && s.From <= at.number && (s.To == 0 || at.number <= s.To)
}

// newRoot is that of a new store.
func newRoot(o Options) *root {
	r := &root{Format: store.Format(), Secret: mackey.New(o.MACKey), Write: rand.Uint64(),
		Members: map[string]member{}, Logs: map[string]logState{}, Partitions: make([]partition, o.Partitions+1)}
	for p := range r.Partitions {
		r.Partitions[p].Epoch = o.Epoch
	}
	return r
}

// clone is a copy that can be changed.
func (r *root) clone() *root {
	c := *r
	c.Members, c.Logs, c.Partitions = maps.Clone(r.Members), maps.Clone(r.Logs), slices.Clone(r.Partitions)
	for i := range c.Partitions {
		c.Partitions[i].Spans = slices.Clone(c.Partitions[i].Spans)
	}
	return &c
}

// sealed notes that a log ends, and ends all spans that go on in it.
func (r *root) sealed(log string, at uint64) {
	r.Logs[log] = logState{Next: at, Seal: at}
	for i := range r.Partitions {
		if p := &r.Partitions[i]; p.open() == log {
			p.close(at)
		}
	}
}

// needed returns from which segment on each log has something that counts. Logs that nobody needs are not
// among them.
func (r *root) needed() map[string]uint64 {
	from := map[string]uint64{}
	for i := range r.Partitions {
		for _, s := range r.Partitions[i].Spans {
			if old, ok := from[s.Log]; !s.empty() && (!ok || s.From < old) {
				from[s.Log] = s.From
			}
		}
	}
	return from
}

// forget takes sealed logs out that nobody needs.
func (r *root) forget() {
	needed := r.needed()
	maps.DeleteFunc(r.Logs, func(id string, l logState) bool {
		_, kept := needed[id]
		return l.Seal != 0 && !kept
	})
}

func (r *root) encode() ([]byte, error) {
	data, err := json.MarshalIndent(r, "", " ") //nolint:gosec // the secret is kept where everything else is
	if err != nil {
		return nil, fmt.Errorf("store: encode the root: %w", err)
	}
	return data, nil
}

func decodeRoot(data []byte) (*root, error) {
	var r root
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%w: the object root: %w", store.ErrDamaged, err)
	}
	if err := store.CheckFormat(r.Format); err != nil && !store.Extends(r.Format) {
		return nil, err
	}
	if n := len(r.Partitions) - 1; n < 1 || n > store.MaxPartitions || len(r.Secret) != secretSize {
		return nil, fmt.Errorf("%w: the object root", store.ErrDamaged)
	}
	if r.Members == nil {
		r.Members = map[string]member{}
	}
	if r.Logs == nil {
		r.Logs = map[string]logState{}
	}
	return &r, nil
}

// secretSize is the length of a MACKey.
const secretSize = 32
