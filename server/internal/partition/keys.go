package partition

import (
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// Keys are the API keys, as of the batch that is being filled: metadata records (store.KindKey) whose key is
// the id. The machine of another partition than [Home] has none.
type Keys struct {
	out     *builder
	all     map[string]access.Key
	written uint64 // the last batch that changes them
}

// DecodeKeys decodes metadata records of kind store.KindKey, in their order. A key whose record is damaged
// opens nothing, and the others go on: damaged are the errors about such records.
func DecodeKeys(records []store.MetaRecord) (all []access.Key, damaged []error) {
	all = make([]access.Key, 0, len(records))
	for _, r := range records {
		k, err := codec.DecodeKey(r.Value, r.Key)
		if err != nil {
			damaged = append(damaged, fmt.Errorf("key %s: %w", r.Key, err))
			continue
		}
		all = append(all, k)
	}
	return all, damaged
}

// KeyRecord is the record of a key.
func KeyRecord(k *access.Key) store.MetaRecord {
	return store.MetaRecord{Kind: store.KindKey, Key: k.ID, Value: codec.EncodeKey(k)}
}

func (k *Keys) load(all []access.Key) {
	for i := range all {
		k.all[all[i].ID] = all[i]
	}
}

// Create adds a key. One that is there already was created by this call, which has come again: ids are
// random.
func (k *Keys) Create(key access.Key) error {
	if was, ok := k.all[key.ID]; ok {
		if was.Hash != key.Hash {
			return carillon.Errorf(carillon.AlreadyExists, "id", "there is a key %q", key.ID)
		}
		k.out.await(k.written)
		return nil
	}
	if len(k.all) >= carillon.MaxKeys {
		return TooManyKeys(len(k.all))
	}
	k.all[key.ID] = key
	k.write(KeyRecord(&key))
	return nil
}

// TooManyKeys is the error about another key where there are [carillon.MaxKeys].
func TooManyKeys(n int) error {
	return carillon.Errorf(carillon.ResourceExhausted, "grants", "there are %d keys, which is the most: revoke some", n)
}

// CreateFirst adds a key if there is none; false: there is another one.
func (k *Keys) CreateFirst(key access.Key) (bool, error) {
	if has, ok := k.all[key.ID]; len(k.all) > 0 && !(ok && has.Hash == key.Hash) {
		return false, nil
	}
	return true, k.Create(key)
}

// Rotate puts a key with another secret in the place of the one whose secret has a hash; false: there is no
// such key, or not any more. One that has this secret already was rotated by this call, which has come again.
func (k *Keys) Rotate(next access.Key, was access.Hash) (bool, error) {
	has, ok := k.all[next.ID]
	switch {
	case !ok || has.Hash == next.Hash:
		k.out.await(k.written)
		return ok, nil
	case has.Hash != was:
		return false, carillon.Errorf(carillon.FailedPrecondition, "id",
			"somebody else has rotated the key at the same time: ask him for the secret, or look at the list of keys")
	}
	next.LastUsed = has.LastUsed // which may be newer than what the caller has read
	k.all[next.ID] = next
	k.write(KeyRecord(&next))
	return true, nil
}

// Revoke removes a key; false: there is none, or not any more.
func (k *Keys) Revoke(id string) bool {
	if _, ok := k.all[id]; !ok {
		k.out.await(k.written) // its end may not be durable yet
		return false
	}
	delete(k.all, id)
	k.write(store.MetaRecord{Kind: store.KindKey, Key: id})
	return true
}

// Use records when keys were used. Those that are gone stay so.
func (k *Keys) Use(uses []access.Use) {
	for _, u := range uses {
		key, ok := k.all[u.ID]
		if !ok || !u.Hour.After(key.LastUsed) {
			continue
		}
		key.LastUsed = u.Hour.UTC().Truncate(time.Hour)
		k.all[u.ID] = key
		k.write(KeyRecord(&key))
	}
}

func (k *Keys) write(r store.MetaRecord) {
	k.out.write(r)
	k.written = k.out.seq
}
