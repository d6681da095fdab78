package access

import (
	"crypto/subtle"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
)

// Keyring has the keys that are in force. Its zero value knows none. Any goroutine may use it.
type Keyring struct {
	entries  atomic.Pointer[map[string]*entry] // by id; not changed
	changing sync.Mutex
}

// entry is one key.
type entry struct {
	key     Key
	secrets []secret     // the newest, and the one before
	hour    atomic.Int64 // in which it was last used, in hours since 1970, as far as is known here
	told    atomic.Int64 // the hour that is on record
}

// secret is one of a key. What was begun by it ends with it.
type secret struct {
	hash Hash
	ends time.Time // zero: never
	from *bond
}

// Use is the hour in which a key was used.
type Use struct {
	ID   string
	Hour time.Time
}

// load returns the entries.
func (r *Keyring) load() map[string]*entry {
	if all := r.entries.Load(); all != nil {
		return *all
	}
	return nil
}

// Replace takes over the keys that are kept. What has begun by a secret that is not among theirs ends.
func (r *Keyring) Replace(keys []Key) {
	r.changing.Lock()
	defer r.changing.Unlock()
	was, is := r.load(), make(map[string]*entry, len(keys))
	for _, k := range keys {
		e := was[k.ID]
		if e == nil || !e.same(&k) {
			e = newEntry(k, e)
		}
		e.used(hourOf(k.LastUsed))
		e.told.Store(hourOf(k.LastUsed))
		is[k.ID] = e
	}
	r.entries.Store(&is)
	for id, e := range was {
		if now := is[id]; now != e {
			e.endBut(now)
		}
	}
}

// newEntry is the entry of a key that was another before, or nil. A secret that both have is the same still.
func newEntry(k Key, was *entry) *entry {
	e := &entry{key: k, secrets: []secret{{hash: k.Hash, ends: k.Expires}}}
	if k.Before != (Hash{}) {
		e.secrets = append(e.secrets, secret{hash: k.Before, ends: k.OverlapEnds})
	}
	for i := range e.secrets {
		s := &e.secrets[i]
		if s.from = was.bondOf(s.hash, k.Expires); s.from == nil {
			s.from = &bond{why: errKey}
		}
	}
	if was != nil {
		e.used(was.hour.Load())
	}
	return e
}

// bondOf returns the bond of a secret of a key that expires then; nil: it is another key.
func (e *entry) bondOf(hash Hash, expires time.Time) *bond {
	if e == nil || !e.key.Expires.Equal(expires) {
		return nil
	}
	for i := range e.secrets {
		if e.secrets[i].hash == hash {
			return e.secrets[i].from
		}
	}
	return nil
}

// endBut ends what rests on secrets of a key, but those that it has still; nil: none.
func (e *entry) endBut(now *entry) {
	for i := range e.secrets {
		if s := &e.secrets[i]; now.bondOf(s.hash, e.key.Expires) != s.from {
			s.from.end()
		}
	}
}

// EndOverlaps ends what has begun by secrets that are over at now.
func (r *Keyring) EndOverlaps(now time.Time) {
	for _, e := range r.load() {
		for i := range e.secrets[1:] {
			if s := &e.secrets[1+i]; s.over(now) {
				s.from.end()
			}
		}
	}
}

// over reports whether a secret has ended by itself.
func (s *secret) over(now time.Time) bool { return !s.ends.IsZero() && !now.Before(s.ends) }

// same reports whether a key is this one still: but for its use and its secrets nothing of a key changes.
func (e *entry) same(k *Key) bool {
	return e.key.Hash == k.Hash && e.key.Before == k.Before && e.key.Expires.Equal(k.Expires) &&
		e.key.OverlapEnds.Equal(k.OverlapEnds)
}

// used notes a use.
func (e *entry) used(hour int64) {
	for was := e.hour.Load(); was < hour; was = e.hour.Load() {
		if e.hour.CompareAndSwap(was, hour) {
			return
		}
	}
}

func hourOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix() / int64(time.Hour/time.Second)
}

// Len returns how many keys there are.
func (r *Keyring) Len() int { return len(r.load()) }

// Unrecorded returns the uses that are newer than those on record.
func (r *Keyring) Unrecorded() []Use {
	var uses []Use
	for id, e := range r.load() {
		if hour := e.hour.Load(); hour > e.told.Load() {
			uses = append(uses, Use{ID: id, Hour: time.Unix(hour*3600, 0).UTC()})
		}
	}
	slices.SortFunc(uses, func(a, b Use) int { return strings.Compare(a.ID, b.ID) })
	return uses
}

// errKey is the answer to every key that does not open anything: which of the reasons it is, is not said.
var errKey = carillon.Errorf(carillon.Unauthenticated, "",
	"the API key is not valid: it is mistyped, has expired or was revoked, or another secret has taken its place")

// Find returns the principal of a key.
func (r *Keyring) Find(text string, now time.Time) (*Principal, error) {
	id, hash, ok := parse(text)
	if !ok {
		return nil, errKey
	}
	return r.byHash(id, hash, now)
}

// byHash returns the principal of a key by one of its secrets.
func (r *Keyring) byHash(id string, hash Hash, now time.Time) (*Principal, error) {
	e := r.load()[id]
	if e == nil || e.key.Expired(now) {
		return nil, errKey
	}
	for i := range e.secrets {
		s := &e.secrets[i]
		if subtle.ConstantTimeCompare(s.hash[:], hash[:]) == 1 && !s.over(now) {
			e.used(hourOf(now))
			return &Principal{Kind: KindKey, ID: id, Grants: e.key.Grants, Expires: s.ends, from: s.from,
				secret: hash}, nil
		}
	}
	return nil, errKey
}
