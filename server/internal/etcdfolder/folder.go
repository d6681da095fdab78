// Package etcdfolder reads the data folder of a member of etcd 3.4 or later that does not run. It changes
// nothing there: the database is copied, and what the log has beyond it is replayed into the copy.
//
//	how is a folder read apart from this process?     parent.go, child.go, limit_linux.go
//	what does the log have?                           log.go
//	what does the database have, with the log?        replay.go
//
// A member that starts would not do for that: it writes to its folder, and one of a later version refuses a
// log of etcd 3.5, with which Dapr 1.18 writes.
package etcdfolder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// ErrRunning is the cause of an error about a folder on which a member runs.
var ErrRunning = errors.New("a process has it open")

// Position is how far a member's log goes. Of the members of one cluster that with the greatest position has
// everything that any of them has answered.
type Position struct{ Term, Index uint64 }

// Less reports whether p is behind o.
func (p Position) Less(o Position) bool {
	return p.Term < o.Term || p.Term == o.Term && p.Index < o.Index
}

// Folder is what was read.
type Folder struct {
	Cluster  uint64 // the id of the cluster, which all clusters that were begun with the same flags have
	Position Position
	Revision int64
	Pairs    []*mvccpb.KeyValue `json:"-"` // in the order of their keys

	// Settled is the revision that the cluster has agreed on, as far as this member knows, and SettledPairs are
	// what is stored then. What a member has beyond that another may have differently.
	Settled      int64
	SettledPairs []*mvccpb.KeyValue `json:"-"`
	Log          Log
}

// Log is what the files of a member's log tell of the entries that the cluster has agreed on. Members of one
// cluster have the same entries.
type Log struct {
	First uint64   // the index of the first entry
	Sums  []uint64 // a hash of each; 0: the entry is one that other clusters have as well
}

// Compare reports whether two logs have an entry in common that no other cluster has, and whether they differ
// in one that both have.
func (l Log) Compare(o Log) (same, differ bool) {
	first := max(l.First, o.First)
	for i := first; i < l.First+uint64(len(l.Sums)) && i < o.First+uint64(len(o.Sums)); i++ {
		a, b := l.Sums[i-l.First], o.Sums[i-o.First]
		if a != b {
			differ = true
		} else if a != 0 {
			same = true
		}
	}
	return same, differ
}

// Read returns what is stored under keys with the prefix. dir is the folder that holds the folder "member".
// A member that never got to it left nothing behind: no pairs.
//
// What etcd's packages do with a damaged database is to end the process, in whatever goroutine and with locks
// held. So the folder is read by another process, which is this program with the arguments of [ChildCommand]:
// the program must call [Child] then. That process ends with this one at the latest.
func Read(ctx context.Context, dir, prefix string) (f *Folder, err error) {
	scratch, err := os.MkdirTemp("", "carillon-etcd-*")
	if err != nil {
		return nil, fmt.Errorf("there is no folder for a copy of the database of %s (TMPDIR): %w", dir, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if f, err = readApart(ctx, filepath.Join(dir, "member"), prefix, scratch); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return f, nil
}
