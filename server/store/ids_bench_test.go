package store_test

import (
	"testing"

	"github.com/carillonhq/carillon/server/store"
)

func BenchmarkRunID(b *testing.B) {
	id := store.RunID{Partition: 7, Scheduled: 1_795_226_400_000_000_000}
	text := id.String()
	b.Run("String", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = id.String()
		}
	})
	b.Run("Parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = store.ParseRunID(text)
		}
	})
}
