package store

import (
	"errors"
	"strings"
	"testing"
)

// TestCheckUnsealed: who has no keys is refused where there are marks, with the ids of the keys, each once.
func TestCheckUnsealed(t *testing.T) {
	if err := CheckUnsealed(nil); err != nil {
		t.Error(err)
	}
	err := CheckUnsealed([]MetaRecord{{Key: "0000000b"}, {Key: "0000000a"}, {Key: "0000000b"}})
	if !errors.Is(err, ErrSealed) || !strings.Contains(err.Error(), "0000000a, 0000000b)") ||
		!strings.Contains(err.Error(), "there are no keys here") {
		t.Error(err)
	}
	err = &MissingKeys{IDs: []string{"0000000a"}, Any: true}
	if !errors.Is(err, ErrSealed) || !strings.Contains(err.Error(), "not in the file of --encryption-keys (0000000a)") {
		t.Error(err)
	}
}
