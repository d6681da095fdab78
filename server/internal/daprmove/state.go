// Package daprmove moves the jobs of Dapr's scheduler to a node, and back.
//
//	what does Dapr's scheduler have?      state.go, source.go: a data folder, an etcd, a file
//	is it a scheduler that came before?   history.go
//	how do jobs come in, once each?       import.go, mark.go
//	how do they go back?                  export.go
package daprmove

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// Fault is a job that cannot be moved.
type Fault struct {
	Key string // of the job there, or its name here
	Err error
}

func (f Fault) Error() string { return f.Key + ": " + f.Err.Error() }

// State is what Dapr's scheduler has stored.
type State struct {
	Origin  string // for people: where it is from
	Records []daprrecord.Record
	Faults  []Fault  // what cannot be read
	Over    int      // jobs that never fire again
	Running []string // the ids of schedulers that are at work on it
	ID      string   // tells the state from all others
	Cluster string   // the id of the etcd that it is from; empty: unknown
	History History  // tells the etcd from others with the same id

	namespaces map[string]bool // that it was collected from; nil: not from a node
}

// raw is what is stored, by whole keys.
type raw struct{ jobs, counters map[string][]byte }

// decode reads what is stored. Every job is in one place of the state.
func decode(from raw) *State {
	s := &State{ID: from.id()}
	for _, key := range slices.Sorted(maps.Keys(from.jobs)) {
		name, isJob := strings.CutPrefix(key, daprrecord.JobPrefix)
		if !isJob {
			s.Faults = append(s.Faults, Fault{key, fmt.Errorf("the key does not begin with %s", daprrecord.JobPrefix)})
			continue
		}
		r, err := daprrecord.Decode(name, from.jobs[key], from.counters[daprrecord.CounterPrefix+name])
		if err == nil {
			_, err = r.ToJob()
		}
		switch {
		case errors.Is(err, daprrecord.ErrOver):
			s.Over++
		case err != nil:
			s.Faults = append(s.Faults, Fault{key, err})
		default:
			s.Records = append(s.Records, r)
		}
	}
	return s
}

// id returns a hash of all bytes, so that a later state has another one.
func (r raw) id() string {
	h := sha256.New()
	for _, m := range []map[string][]byte{r.jobs, r.counters} {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(h, "%q %x\n", key, m[key])
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Digest says which jobs there are: how many, and a hash of what makes each the job that it is.
type Digest struct {
	Jobs int    `json:"jobs"`
	Hash string `json:"hash"`
}

func (d Digest) String() string { return fmt.Sprintf("%d jobs, %s", d.Jobs, d.Hash) }

// DigestOf returns the digest of records in any order.
func DigestOf(records []daprrecord.Record) (Digest, error) {
	sorted := slices.SortedFunc(slices.Values(records), func(a, b daprrecord.Record) int {
		return cmp.Compare(a.Name, b.Name)
	})
	h := sha256.New()
	for i := range sorted {
		b, err := sorted[i].Canonical()
		if err != nil {
			return Digest{}, fmt.Errorf("%s: %w", sorted[i].Name, err)
		}
		one := sha256.Sum256(b)
		h.Write(one[:])
	}
	return Digest{len(records), hex.EncodeToString(h.Sum(nil))[:32]}, nil
}
