package partition

import (
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// TestAbsentRunsAreFoundInPages: the newest first, without those that are in memory.
func TestAbsentRunsAreFoundInPages(t *testing.T) {
	key := carillon.Key{Namespace: "ns", Name: "a"}
	m := newMachine(Config{})
	add := func(seq uint64) *entry {
		e := &entry{ref: store.Ref{Key: key, Seq: seq}, timer: -1}
		m.Records.entries[e.ref] = e
		return e
	}
	job := add(0)
	add(7)
	add(4)
	job.state.Triggers, job.state.Pending, job.children = 9, 5, 2
	var got []uint64
	for last := uint64(0); ; {
		page := m.Records.Absent(key, last, 3)
		if len(page) == 0 {
			break
		}
		for _, ref := range page {
			got = append(got, ref.Seq)
			last = ref.Seq
		}
	}
	if want := []uint64{9, 8, 6, 5, 3, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("absent are %v, want %v", got, want)
	}
	if first := m.Records.Absent(key, 100, 1); len(first) != 1 || first[0].Seq != 9 {
		t.Errorf("from behind the newest: %v", first)
	}
	job.children = 5
	if refs := m.Records.Absent(key, 0, 3); len(refs) > 0 {
		t.Errorf("all are in memory, absent are %v", refs)
	}
	job.children, job.place = 2, gone
	if refs := m.Records.Absent(key, 0, 3); len(refs) > 0 {
		t.Errorf("the job is deleted, absent are %v", refs)
	}
	if refs := m.Records.Absent(carillon.Key{Namespace: "ns", Name: "b"}, 0, 3); len(refs) > 0 {
		t.Errorf("of no job %v are absent", refs)
	}
}
