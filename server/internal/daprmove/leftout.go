package daprmove

import (
	"maps"
	"slices"

	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// leftOut are the jobs of a state that are not here, by their keys.
type leftOut struct {
	// Refused may come in when the reason is gone: they are tried again.
	Refused []string `json:"refused,omitempty"`
	// Taken had names that jobs here had. These may have ended since, so they are never tried again.
	Taken []string `json:"taken,omitempty"`
	// Unkept is how many more there are, whose keys found no room. They are not tried again.
	Unkept int `json:"unkept,omitempty"`
}

// The most keys that a mark has, and the most bytes of them: it is written every two seconds.
const (
	mostKept      = 1000
	mostKeptBytes = 64 << 10
)

// bounded returns what a mark has room for.
func bounded(refused, taken map[string]bool, unkept int) leftOut {
	room, size := mostKept, mostKeptBytes
	fit := func(keys map[string]bool) (kept []string) {
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if room--; room < 0 || len(key) > size {
				unkept++
				continue
			}
			size -= len(key)
			kept = append(kept, key)
		}
		return kept
	}
	l := leftOut{Refused: fit(refused), Taken: fit(taken)}
	l.Unkept = unkept
	return l
}

func set(all map[string]bool, keys []string) {
	for _, key := range keys {
		all[key] = true
	}
}

// refusedBefore returns the keys of the jobs that an import before has refused, and that can be tried again.
func (im *importer) refusedBefore(l *leftOut) map[string]bool {
	refused := map[string]bool{}
	set(refused, l.Refused)
	found := map[string]bool{}
	for i := range im.from.Records {
		if key := keyOf(&im.from.Records[i]); refused[key] {
			found[key] = true
		}
	}
	return found
}

// keyOf returns the key that a record has in Dapr's etcd.
func keyOf(r *daprrecord.Record) string { return daprrecord.JobPrefix + r.Name }
