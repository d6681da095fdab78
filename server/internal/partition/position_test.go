package partition_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/server/internal/partition"
)

// TestPositionsComeBack as they were, whatever their length, and with the key of their store only.
func TestPositionsComeBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pos := partition.Position(rapid.SliceOfN(rapid.Uint64(), 1, 100).Draw(rt, "position"))
		key := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(rt, "key")
		token := pos.Token(key)
		if got, err := partition.ParsePosition(token, key); err != nil || !slices.Equal(got, pos) {
			rt.Fatalf("%v comes back as %v, %v", pos, got, err)
		}
		key[0]++
		if got, err := partition.ParsePosition(token, key); !errors.Is(err, partition.ErrPosition) {
			rt.Fatalf("a position of another store is read as %v, %v", got, err)
		}
	})
	for _, bad := range []string{"", "-", "AAAA", partition.Position{}.Token([]byte("key"))} {
		if got, err := partition.ParsePosition(bad, []byte("key")); !errors.Is(err, partition.ErrPosition) {
			t.Errorf("%q is read as %v, %v", bad, got, err)
		}
	}
}
