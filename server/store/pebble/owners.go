package pebble

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/carillonhq/carillon/server/store"
)

// owners keeps the owners of partitions in memory. When the process ends all of it is void, since the folder
// is locked and no other process could have held anything. Only the terms must last: they are written in the
// commit that gives them out, so that every later one is greater. Terms change in the committer only, so
// fencing and the writes it refuses are one step.
type owners struct {
	boot uint64 // grows with each open

	mu    sync.RWMutex
	until time.Time // no lease lasts longer, of this process or of an earlier one
	owned []owner   // by partition
}

// owner is the holder of a partition; node is empty if there is none.
type owner struct {
	term  store.Term
	node  string
	until time.Time
}

// loadOwners reads the terms given out so far.
func loadOwners(db *pebbledb.DB, partitions int, boot uint64) (*owners, error) {
	o := &owners{boot: boot, owned: make([]owner, partitions)}
	lower, upper := bounds(appendHead(nil, storePartition, kindOwner))
	_, err := scanAll(source{Reader: db}, lower, upper, func(key, value []byte) (bool, error) {
		return true, o.load(key[headLen:], value)
	})
	if err == nil {
		o.until, err = readUntil(db)
	}
	for p := range o.owned { // nothing else is known of them
		o.owned[p].until = o.until
	}
	return o, err
}

// load adds one stored term.
func (o *owners) load(key, value []byte) error {
	if len(key) != 2 || len(value) != 16 || int(binary.BigEndian.Uint16(key)) >= len(o.owned) {
		return fmt.Errorf("owner %x: %w", key, errKey)
	}
	o.owned[binary.BigEndian.Uint16(key)].term = store.Term{
		Epoch: binary.BigEndian.Uint64(value), Nonce: binary.BigEndian.Uint64(value[8:]),
	}
	return nil
}

// holdAll reports whether the terms of all changes are in force.
func (o *owners) holdAll(changes []change) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for i := range changes {
		s := changes[i].shard
		own := &o.owned[s.number]
		if own.node == "" || s.term.IsZero() || own.term != s.term {
			return false
		}
	}
	return true
}

// claim gives free, expired and own partitions to the node. A zero term means that another node holds it.
func (o *owners) claim(out *pebbledb.Batch, node string, partitions []int, now time.Time,
	ttl time.Duration) ([]store.Term, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	terms := make([]store.Term, len(partitions))
	for i, p := range partitions {
		own := &o.owned[p]
		if own.node != "" && own.node != node && now.Before(own.until) {
			continue
		}
		own.term = store.Term{Epoch: o.nextEpoch(own.term.Epoch), Nonce: nonce()}
		own.node, own.until = node, now.Add(ttl)
		terms[i] = own.term
		if err := own.write(out, p); err != nil {
			return nil, err
		}
	}
	return terms, o.lasts(out, now.Add(ttl))
}

// nextEpoch returns an epoch greater than any before. The boot is in its upper half, so that even a folder
// whose last claims were lost with the disk's cache gives out new ones.
func (o *owners) nextEpoch(last uint64) uint64 { return max(last, o.boot<<32) + 1 }

// nonce returns a random nonce.
func nonce() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}

// renew extends what the node still holds and returns the rest.
func (o *owners) renew(out *pebbledb.Batch, node string, held []store.Holding,
	until time.Time) (lost []store.Holding, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range held {
		if own := &o.owned[h.Partition]; own.held(node, h.Term) {
			own.until = until
		} else {
			lost = append(lost, h)
		}
	}
	return lost, o.lasts(out, until)
}

// release frees what the node still holds. The term stays, so that the next one is greater.
func (o *owners) release(node string, held []store.Holding) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range held {
		if own := &o.owned[h.Partition]; own.held(node, h.Term) {
			own.node, own.until = "", time.Time{}
		}
	}
}

// held reports whether the node holds the partition under the term.
func (own *owner) held(node string, t store.Term) bool {
	return own.node != "" && own.node == node && own.term == t
}

// list returns every partition that was ever claimed.
func (o *owners) list() []store.Owner {
	o.mu.RLock()
	defer o.mu.RUnlock()
	var out []store.Owner
	for p, own := range o.owned {
		if !own.term.IsZero() {
			out = append(out, store.Owner{Partition: p, Term: own.term, Node: own.node, Until: own.until})
		}
	}
	return out
}

// save writes every term durably.
func (o *owners) save(db *pebbledb.DB) error {
	o.mu.RLock()
	defer o.mu.RUnlock()
	out := db.NewBatch()
	for p := range o.owned {
		if o.owned[p].term.IsZero() {
			continue
		}
		if err := o.owned[p].write(out, p); err != nil {
			return err
		}
	}
	if err := o.lasts(out, o.until); err != nil {
		return err
	}
	return out.Commit(pebbledb.Sync)
}

// write writes the term of a partition.
func (own *owner) write(out *pebbledb.Batch, p int) error {
	key := binary.BigEndian.AppendUint16(appendHead(nil, storePartition, kindOwner), uint16(p))
	value := binary.BigEndian.AppendUint64(nil, own.term.Epoch)
	return out.Set(key, binary.BigEndian.AppendUint64(value, own.term.Nonce), nil)
}
