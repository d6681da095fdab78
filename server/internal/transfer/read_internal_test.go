package transfer

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestContentsInFewBatches: finished runs and metadata records that are small are passed on many at a time,
// large ones so that no batch is long, and each is passed on once.
func TestContentsInFewBatches(t *testing.T) {
	const small, large = 2000, 100
	s := memory.New(memory.Options{Partitions: 1})
	terms, err := s.Leaser().Claim(t.Context(), "n", []int{0}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	sh, err := s.Shard(0, terms[0])
	if err != nil {
		t.Fatal(err)
	}
	b := &store.Batch{}
	for i := range small + large {
		k := carillon.Key{Namespace: "n", Name: fmt.Sprint("job-", i)}
		run := store.RunRecord{Key: k, ID: store.RunID{UID: store.NewUID(k, [8]byte{1})}, Status: carillon.RunDead}
		meta := store.MetaRecord{Kind: store.KindQueue, Key: fmt.Sprintf("%05d", i), Value: []byte{1}}
		if i >= small {
			run.Spec, meta.Value = make([]byte, 300<<10), make([]byte, 100<<10)
		}
		b.Runs, b.MetaRecords = append(b.Runs, run), append(b.MetaRecords, meta)
	}
	if err := sh.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	runs, meta, batches := map[store.RunID]int{}, map[string]int{}, 0
	if err := Contents(t.Context(), sh, func(b *store.Batch) error {
		batches++
		length := 0
		for i := range b.Runs {
			runs[b.Runs[i].ID]++
			length += len(b.Runs[i].Spec)
		}
		for i := range b.MetaRecords {
			meta[b.MetaRecords[i].Key]++
			length += len(b.MetaRecords[i].Value)
		}
		if len(b.Runs)+len(b.MetaRecords) > pageItems || length > passBytes {
			t.Errorf("a batch of %d runs, %d metadata records, %d bytes", len(b.Runs), len(b.MetaRecords), length)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]int{"runs": len(runs), "metadata records": len(meta)} {
		if n != small+large {
			t.Errorf("%d %s of %d", n, name, small+large)
		}
	}
	for id, n := range runs {
		if n != 1 {
			t.Errorf("the run %v came %d times", id, n)
		}
	}
	// Three of the large runs are as long as a batch may be, and ten of the large metadata records. Where large
	// ones are among small ones, which the order of uids decides, batches have less of these.
	if most := 2*small/pageItems + large/3 + large/10 + large; batches > most {
		t.Errorf("%d batches, of at most %d", batches, most)
	}
}
