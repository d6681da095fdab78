// Package daprmove moves the jobs of Dapr's scheduler to a node, and back.
//
//	what does Dapr's scheduler have?      state.go, source.go: a data folder, an etcd, a file
//	is it a scheduler that came before?   history.go
//	how do jobs come in, once each?       import.go, mark.go
//	how do they go back?                  export.go
package daprmove

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/bits"
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
	var d sum
	for i := range records {
		b, err := records[i].Canonical()
		if err != nil {
			return Digest{}, fmt.Errorf("%s: %w", records[i].Name, err)
		}
		one := sha256.Sum256(b)
		d.add(sumOf(one[:]))
	}
	return Digest{len(records), d.String()}, nil
}

// plus returns the digest of the jobs of both.
func (d Digest) plus(o Digest) (Digest, error) {
	var all sum
	for _, one := range []Digest{d, o} {
		if one.Jobs == 0 {
			continue // it may have no hash at all
		}
		b, err := hex.DecodeString(one.Hash)
		if err != nil || len(b) != 16 {
			return Digest{}, fmt.Errorf("%q is no hash over jobs", one.Hash)
		}
		all.add(sumOf(b))
	}
	return Digest{d.Jobs + o.Jobs, all.String()}, nil
}

// sum is the hash over jobs: that of each, added up, so that it has no order and that of two sets gives that
// of both.
type sum struct{ high, low uint64 }

func sumOf(b []byte) sum { return sum{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])} }

func (s *sum) add(o sum) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, o.low, 0)
	s.high, _ = bits.Add64(s.high, o.high, carry)
}

func (s sum) String() string { return fmt.Sprintf("%016x%016x", s.high, s.low) }
