package pebble

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/carillonhq/carillon/server/store/ordered"
)

// headCache caches the heads of the records of a partition that were last read or written, so that most
// writes need not read what they replace: a new job was found absent a moment ago, and a rewritten record was
// most often written by this process. Its size is fixed, whatever the store holds.
//
// It has the state of Pebble after the last commit. The committer applies commits to it one after the other,
// as soon as they are visible. Until then nothing is built on what they change, because an Apply of the
// partition, or the claim before it, has yet to return. A read that began before such a change may have seen
// an older version, so what it learned is dropped.
type headCache struct {
	turns atomic.Uint64 // grows with each change; a read asks for it first
	most  int           // bytes of a generation
	seed  maphash.Seed

	mu         sync.Mutex
	young, old facts // new facts go into young; when that is full, old is dropped and young becomes old
}

// facts is one generation: entries one after another, and their offsets by the hash of the key. If the entry
// at a hash has another key, nothing is known, not even from the older generation.
type facts struct {
	at      map[uint64]uint32
	entries []byte
}

// fact is what is known of a record: its head without a body.
type fact struct {
	key    []byte
	exists bool
	head   []byte
}

func newHeadCache(size int) *headCache { return &headCache{most: size / 2, seed: maphash.MakeSeed()} }

// appendFact appends an entry.
func appendFact(b []byte, f *fact) []byte {
	b = appendBytes(b, f.key)
	if !f.exists {
		return append(b, 0)
	}
	return appendBytes(append(b, 1), f.head)
}

func appendBytes(b, part []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

// cutFact decodes what appendFact wrote and returns the rest; the fact aliases b.
func cutFact(b []byte) (f fact, rest []byte) {
	c := ordered.Cutter{B: b}
	f.key = c.Bytes(c.Uvarint())
	if f.exists = c.Byte() == 1; f.exists {
		f.head = c.Bytes(c.Uvarint())
	}
	return f, c.B
}

// look appends to buf the entry of the record with a head key, if there is one.
func (k *headCache) look(buf, key []byte) []byte {
	h := maphash.Bytes(k.seed, key)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, g := range []*facts{&k.young, &k.old} {
		if at, ok := g.at[h]; ok {
			f, rest := cutFact(g.entries[at:])
			if !bytes.Equal(f.key, key) {
				return buf
			}
			return append(buf, g.entries[at:len(g.entries)-len(rest)]...)
		}
	}
	return buf
}

// learn adds what a read found that began at a turn.
func (k *headCache) learn(turn uint64, f *fact) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.turns.Load() == turn {
		var room [512]byte
		k.add(maphash.Bytes(k.seed, f.key), appendFact(room[:0], f))
	}
}

// change applies the entries of a commit. What it deleted is forgotten: it seldom comes back.
func (k *headCache) change(entries []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turns.Add(1)
	for len(entries) > 0 {
		f, rest := cutFact(entries)
		h := maphash.Bytes(k.seed, f.key)
		if f.exists {
			k.add(h, entries[:len(entries)-len(rest)])
		} else {
			delete(k.young.at, h)
			delete(k.old.at, h)
		}
		entries = rest
	}
}

// add adds an entry to the young generation. One that is too long is not worth its room.
func (k *headCache) add(h uint64, entry []byte) {
	if len(entry) > k.most/8 {
		delete(k.young.at, h)
		delete(k.old.at, h)
		return
	}
	if len(k.young.entries)+len(entry) > k.most {
		k.young, k.old = k.old, k.young
		clear(k.young.at)
		k.young.entries = k.young.entries[:0]
	}
	if k.young.at == nil {
		k.young.at, k.young.entries = make(map[uint64]uint32), make([]byte, 0, k.most)
	}
	k.young.at[h] = uint32(len(k.young.entries))
	k.young.entries = append(k.young.entries, entry...)
}

// forget empties the cache.
func (k *headCache) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turns.Add(1)
	k.young, k.old = facts{}, facts{}
}
