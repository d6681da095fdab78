// Package etcdfolder reads the data folder of a member of etcd 3.4 or later that does not run. It changes
// nothing there: the database is copied, and what the log has beyond it is replayed into the copy.
//
// A member that starts would not do for that: it writes to its folder, and one of a later version refuses a
// log of etcd 3.5, with which Dapr 1.18 writes.
package etcdfolder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
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
	Cluster  uint64 // the id of the cluster
	Position Position
	Revision int64
	Pairs    []*mvccpb.KeyValue // in the order of their keys
}

// Read returns what is stored under keys with the prefix. dir is the folder that holds the folder "member".
// A member that never got to it left nothing behind: no pairs.
func Read(ctx context.Context, dir, prefix string) (f *Folder, err error) {
	scratch, err := os.MkdirTemp("", "carillon-etcd-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	r := reader{ctx: ctx, dir: filepath.Join(dir, "member"), log: zap.NewNop(),
		copied: filepath.Join(scratch, "db")}
	if f, err = r.read(prefix); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return f, nil
}

// reader reads one folder.
type reader struct {
	ctx    context.Context
	dir    string // "member"
	copied string // the copy of the database
	log    *zap.Logger

	lessor lease.Lessor
	kv     mvcc.KV
}

func (r *reader) read(prefix string) (*Folder, error) {
	if err := r.copyDatabase(filepath.Join(r.dir, "snap", "db")); err != nil {
		return nil, err
	}
	from, err := r.applied()
	if err != nil {
		return nil, err
	}
	snaps, err := wal.ValidSnapshotEntries(r.log, filepath.Join(r.dir, "wal"))
	if err != nil {
		return nil, fmt.Errorf("the log cannot be read: %w", err)
	}
	start := &walpb.Snapshot{}
	if n := len(snaps); n > 0 && snaps[n-1].GetIndex() > from {
		// the leader has sent a database that this member had not put in place yet
		path, err := snap.New(r.log, filepath.Join(r.dir, "snap")).DBFilePath(snaps[n-1].GetIndex())
		if err != nil {
			return nil, fmt.Errorf("its database is older than its log: %w", err)
		}
		if err := r.copyFile(path); err != nil {
			return nil, err
		}
		if from, err = r.applied(); err != nil {
			return nil, err
		}
	}
	for _, s := range snaps {
		if s.GetIndex() <= from {
			start = s
		}
	}
	metadata, entries, err := r.entries(start)
	if err != nil {
		return nil, err
	}
	f := &Folder{Position: Position{start.GetTerm(), start.GetIndex()}}
	var m etcdserverpb.Metadata
	if err := proto.Unmarshal(metadata, &m); err != nil {
		return nil, fmt.Errorf("the log's metadata: %w", err)
	}
	f.Cluster = m.GetClusterID()
	if n := len(entries); n > 0 {
		f.Position = Position{entries[n-1].GetTerm(), entries[n-1].GetIndex()}
	}
	f.Pairs, f.Revision, err = r.replay(entries, from, prefix)
	return f, err
}

// copyDatabase copies the database while no member has it open, and none can open it.
func (r *reader) copyDatabase(path string) (err error) {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("this is no data folder of etcd: %w", err)
	}
	db, err := bbolt.Open(path, 0o400, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return fmt.Errorf("%w; stop Dapr's scheduler first", ErrRunning)
	}
	if err != nil {
		return fmt.Errorf("its database: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return r.copyFile(path)
}

func (r *reader) copyFile(path string) (err error) {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(r.copied, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// applied returns up to which entry of the log the copy has everything.
func (r *reader) applied() (index uint64, err error) {
	be, err := r.open()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	schema.CreateMetaBucket(be.BatchTx()) // a new member has none
	index, _ = schema.ReadConsistentIndex(be.ReadTx())
	return index, nil
}

// open opens the copy. The library panics if it cannot.
func (r *reader) open() (be backend.Backend, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its database cannot be opened: %v", p)
		}
	}()
	return backend.NewDefaultBackend(r.log, r.copied), nil
}

// entries returns the log from a snapshot on, also what may not have been acknowledged: a member that
// starts alone would count it as well.
func (r *reader) entries(start *walpb.Snapshot) (metadata []byte, es []*raftpb.Entry, err error) {
	w, err := wal.OpenForRead(r.log, filepath.Join(r.dir, "wal"), start)
	if err != nil {
		return nil, nil, fmt.Errorf("the log cannot be read: %w", err)
	}
	metadata, _, es, err = w.ReadAll()       // which also closes its files
	if errors.Is(err, io.ErrUnexpectedEOF) { // its last record was cut off by the end of the process
		err = nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the log cannot be read: %w", err)
	}
	return metadata, es, nil
}

// replay applies what the copy does not have yet, and reads it.
func (r *reader) replay(entries []*raftpb.Entry, from uint64,
	prefix string) (pairs []*mvccpb.KeyValue, rev int64, err error) {
	be, err := r.open()
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	r.lessor = lease.NewLessor(r.log, be, nil, lease.LessorConfig{})
	defer r.lessor.Stop()
	r.kv = mvcc.NewStore(r.log, be, r.lessor, mvcc.StoreConfig{})
	defer func() { err = errors.Join(err, r.kv.Close()) }()
	for _, e := range entries {
		if e.GetIndex() <= from || e.GetType() != raftpb.EntryNormal || len(e.GetData()) == 0 {
			continue
		}
		if err := r.apply(e); err != nil {
			return nil, 0, fmt.Errorf("entry %d of the log: %w", e.GetIndex(), err)
		}
	}
	got, err := r.kv.Range(r.ctx, []byte(prefix), end(prefix), mvcc.RangeOptions{})
	if err != nil {
		return nil, 0, err
	}
	return got.KVs, got.Rev, nil
}

// apply does what etcd does with an entry, as far as it is about keys. A request that fails has failed there
// as well. What has no field of its own here is of the store before version 3.
func (r *reader) apply(e *raftpb.Entry) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	var q etcdserverpb.InternalRaftRequest
	if err := proto.Unmarshal(e.GetData(), &q); err != nil {
		return nil //nolint:nilerr // a request to the store before version 3
	}
	var err error
	switch {
	case q.GetPut() != nil:
		_, _, err = txn.Put(r.ctx, r.log, r.lessor, r.kv, q.GetPut())
	case q.GetDeleteRange() != nil:
		_, _, err = txn.DeleteRange(r.ctx, r.log, r.kv, q.GetDeleteRange())
	case q.GetTxn() != nil:
		_, _, err = txn.Txn(r.ctx, r.log, q.GetTxn(), false, r.kv, r.lessor, true)
	case q.GetLeaseGrant() != nil:
		_, err = r.lessor.Grant(lease.LeaseID(q.GetLeaseGrant().GetID()), q.GetLeaseGrant().GetTTL())
	case q.GetLeaseRevoke() != nil:
		err = r.lessor.Revoke(lease.LeaseID(q.GetLeaseRevoke().GetID()))
	case q.GetAlarm().GetAction() == etcdserverpb.AlarmRequest_ACTIVATE:
		return fmt.Errorf("it raises the alarm %v, and what follows may not count: start Dapr's scheduler and export",
			q.GetAlarm().GetAlarm())
	}
	r.log.Debug("applied", zap.Uint64("index", e.GetIndex()), zap.Error(err))
	return nil
}

// end returns the end of the keys with the prefix.
func end(prefix string) []byte {
	b := slices.Clone([]byte(prefix))
	b[len(b)-1]++
	return b
}
