package pebble

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
)

// randomPoint is a recovery point of a version.
func randomPoint(rng *rand.Rand, version uint64) recoveryPoint {
	p := recoveryPoint{version: version, clean: rng.IntN(2) == 0, marker: rng.Uint64()}
	for range rng.IntN(mostExtents + 1) {
		p.files = append(p.files, extent{kind: "LM"[rng.IntN(2)], number: rng.Uint64(), length: rng.Int64(),
			sum: rng.Uint32()})
	}
	return p
}

// TestARecoveryPointIsReadWholeOrNotAtAll: any change of a byte, and any missing end, makes a slot
// unreadable.
func TestARecoveryPointIsReadWholeOrNotAtAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		want := randomPoint(rng, rng.Uint64())
		b := want.append(nil)
		if len(b) > slotSize {
			t.Fatalf("a point of %d files has %d bytes, more than a slot", len(want.files), len(b))
		}
		slot := append(bytes.Clone(b), make([]byte, slotSize-len(b))...)
		if got, ok := parseSlot(slot); !ok || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v is read as %+v, %v", want, got, ok)
		}
		at := rng.IntN(len(b))
		slot[at] ^= 1 << rng.IntN(8)
		if got, ok := parseSlot(slot); ok {
			t.Fatalf("with byte %d changed it is read as %+v", at, got)
		}
		if got, ok := parseSlot(b[:at]); ok {
			t.Fatalf("its first %d bytes are read as %+v", at, got)
		}
	}
}

// TestTheNewestWholeSlotIsTaken: one that was not written to its end does not count.
func TestTheNewestWholeSlotIsTaken(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		file := make([]byte, slots*slotSize)
		newest := uint64(0)
		for i, version := range rng.Perm(slots) {
			p := randomPoint(rng, uint64(version+1))
			b := p.append(nil)
			if n := rng.IntN(2 * len(b)); n < len(b) {
				b = b[:n] // a crash cut it off
			} else {
				newest = max(newest, p.version)
			}
			copy(file[i*slotSize:], b)
		}
		if got, ok := parseRecovery(file); ok != (newest > 0) || got.version != newest {
			t.Fatalf("version %d is taken, want %d", got.version, newest)
		}
	}
}
