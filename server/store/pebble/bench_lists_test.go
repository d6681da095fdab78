package pebble_test

import (
	"testing"

	"github.com/carillonhq/carillon/server/store/pebble"
	"github.com/carillonhq/carillon/server/store/storetest"
)

// BenchmarkLists measures lists of a store with much in it (-benchtime 500x).
func BenchmarkLists(b *testing.B) {
	storetest.BenchLists(b, open(b, b.TempDir(), pebble.Options{}))
}
