package store

import (
	"bytes"
	"testing"
)

// TestAuditKeys: a key leads back to its chain and number, and is in the order of the numbers.
func TestAuditKeys(t *testing.T) {
	chain := AuditName(12, Term{Epoch: 3, Nonce: 0xabc})
	last := AuditKey(chain, 0)
	for _, n := range []uint64{1, 2, 9, 10, 255, 256, 1 << 40, 1<<64 - 1} {
		key := AuditKey(chain, n)
		if c, got, ok := ParseAuditKey(key); !ok || c != chain || got != n {
			t.Errorf("%q: %q %d %v", key, c, got, ok)
		}
		if key <= last {
			t.Errorf("%q does not follow %q", key, last)
		}
		last = key
	}
	for _, key := range []string{"", "/0000000000000001", chain, chain + "/1", chain + "/0000000000000000",
		chain + "/000000000000000G", chain + "/000000000000000A"} {
		if c, n, ok := ParseAuditKey(key); ok {
			t.Errorf("%q is taken for %q %d", key, c, n)
		}
	}
}

// TestAuditHash: no bytes can go from the key to the value.
func TestAuditHash(t *testing.T) {
	a := AuditHash("ab", []byte("c"))
	for _, other := range [][]byte{AuditHash("a", []byte("bc")), AuditHash("ab", []byte("d")), AuditHash("ab", nil)} {
		if bytes.Equal(a, other) {
			t.Error("two entries have one hash")
		}
	}
}
