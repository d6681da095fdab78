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
	bond
	key  Key
	hour atomic.Int64 // in which it was last used, in hours since 1970, as far as is known here
	told atomic.Int64 // the hour that is on record
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

// Replace takes over the keys that are kept. What has begun by one that is not among them ends.
func (r *Keyring) Replace(keys []Key) {
	r.changing.Lock()
	defer r.changing.Unlock()
	was, is := r.load(), make(map[string]*entry, len(keys))
	for _, k := range keys {
		e := was[k.ID]
		if e == nil || !e.same(&k) {
			e = &entry{bond: bond{why: errKey}, key: k}
		}
		e.used(hourOf(k.LastUsed))
		e.told.Store(hourOf(k.LastUsed))
		is[k.ID] = e
	}
	r.entries.Store(&is)
	for id, e := range was {
		if is[id] != e {
			e.end()
		}
	}
}

// same reports whether a key is this one still: but for its use nothing of a key changes.
func (e *entry) same(k *Key) bool { return e.key.Hash == k.Hash && e.key.Expires.Equal(k.Expires) }

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
	"the API key is not valid: it is mistyped, has expired or was revoked")

// Find returns the principal of a key.
func (r *Keyring) Find(text string, now time.Time) (*Principal, error) {
	id, hash, ok := parse(text)
	if !ok {
		return nil, errKey
	}
	e := r.load()[id]
	if e == nil || subtle.ConstantTimeCompare(e.key.Hash[:], hash[:]) != 1 || e.expired(now) {
		return nil, errKey
	}
	e.used(hourOf(now))
	return &Principal{Kind: KindKey, ID: id, Grants: e.key.Grants, Expires: e.key.Expires, from: &e.bond}, nil
}

func (e *entry) expired(now time.Time) bool {
	return !e.key.Expires.IsZero() && !now.Before(e.key.Expires)
}
