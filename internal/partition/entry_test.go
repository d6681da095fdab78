package partition

import (
	"testing"
	"unsafe"
)

// TestAnEntryFitsItsSizeClass: there may be a hundred thousand entries in memory. Go's size classes are 768
// and 896 bytes, of which 8 are the allocator's own.
func TestAnEntryFitsItsSizeClass(t *testing.T) {
	if size, most := unsafe.Sizeof(entry{}), uintptr(768-8); size > most {
		t.Errorf("an entry has %d bytes, more than %d", size, most)
	}
}
