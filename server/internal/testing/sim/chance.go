package sim

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// grain is how many nanoseconds lie between two moments at which the same actor may act. It divides a second,
// so that what recurs each second keeps its residue.
const grain = 1000

// Residues of actors. Whoever acts upon something that others act upon too waits for a nanosecond of its own.
const (
	actorNemesis   = 1
	actorFinal     = 2
	actorMember    = 3   // + node: what it asks of the store about leases and members
	actorPartition = 16  // + node · maxPartitions + partition: its rounds
	actorStore     = 144 // + node · maxPartitions + partition: ends of its writes
	actorClient    = 272 // + number
	actorLink      = 288 // + from · maxNodes + to: what one node says to another
	actorWorker    = 336 // + number + node · maxWorkers: its stream to a node
	actorEndpoint  = 400 // + number
	actorFault     = 432 // + number, the last of them shared
	actorReader    = 600 // + node · maxPartitions + first partition: ends of reads for several
	actorAnswer    = 700 // + from · maxNodes + to: what one node answers another
	actorDoor      = 736 // + node · doorway + rank: calls that go to its partitions

	maxPartitions = 16
	maxNodes      = 6
	maxWorkers    = 8
	maxFaults     = actorReader - actorFault
	doorway       = (grain - actorDoor) / maxNodes
)

// pause lets at least d pass, at least a nanosecond, until the clock shows a time that is the actor's alone.
func pause(actor int, d time.Duration) { time.Sleep(aligned(actor, d)) }

// aligned is how long pause sleeps.
func aligned(actor int, d time.Duration) time.Duration {
	now := time.Now().UnixNano()
	at := now + max(int64(d), 1)
	at += ((int64(actor)-at)%grain + grain) % grain
	return time.Duration(at - now)
}

// pauseUntil lets time pass until at, or a moment of the actor's soon after it.
func pauseUntil(actor int, at time.Time) { pause(actor, time.Until(at)) }

// chance is where a run's luck comes from: the seed and what is asked, never the order of asking.
type chance struct{ seed uint64 }

// about is a source of luck of its own for what is asked.
func (c chance) about(what string, more ...uint64) *rand.Rand {
	h := fnv.New64a()
	var b [8]byte
	h.Write([]byte(what))
	for _, m := range more {
		binary.BigEndian.PutUint64(b[:], m)
		h.Write(b[:])
	}
	return rand.New(rand.NewPCG(c.seed, h.Sum64()))
}

// now is luck for what happens at this moment and to nobody else.
func (c chance) now(what string, more ...uint64) *rand.Rand {
	return c.about(what, append(more, uint64(time.Now().UnixNano()))...)
}

// between is a duration from a to b.
func between(r *rand.Rand, a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(r.Int64N(int64(b-a)))
}

// dice is a reader of random bytes that hang on the moment of reading, so that what is read elsewhere changes
// nothing.
type dice struct {
	chance chance
	what   string
	mu     sync.Mutex
	at     int64
	nth    uint64 // of this moment
}

// Read is for [io.Reader].
func (d *dice) Read(p []byte) (int, error) {
	d.mu.Lock()
	now := time.Now().UnixNano()
	if d.nth++; now != d.at {
		d.at, d.nth = now, 0
	}
	r := d.chance.about(d.what, uint64(now), d.nth)
	d.mu.Unlock()
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return len(p), nil
}

// uint64 is a number from the bytes.
func (d *dice) uint64() uint64 {
	var b [8]byte
	_, _ = d.Read(b[:]) // it cannot fail
	return binary.BigEndian.Uint64(b[:])
}
