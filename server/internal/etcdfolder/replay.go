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
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// reader reads one folder, in a process of its own.
type reader struct {
	dir    string // "member"
	prefix string
	copied string // the copy of the database
	log    *zap.Logger

	be      backend.Backend
	lessor  lease.Lessor
	kv      mvcc.KV
	applied uint64 // up to which entry the copy has everything
}

func (r *reader) read() (*Folder, error) {
	if err := r.copyDatabase(filepath.Join(r.dir, "snap", "db")); err != nil {
		return nil, err
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	files, err := readLog(filepath.Join(r.dir, "wal"), r.applied)
	if err != nil {
		return nil, err
	}
	newest := &walpb.Snapshot{}
	if n := len(files.snaps); n > 0 {
		newest = files.snaps[n-1]
	}
	if newest.GetIndex() > r.applied {
		if err := r.openSent(newest.GetIndex()); err != nil {
			return nil, err
		}
	}
	last := files.last
	if last.Index < newest.GetIndex() {
		last = Position{newest.GetTerm(), newest.GetIndex()}
	}
	agreed := max(files.commit, r.applied)
	if last.Index < agreed {
		return nil, fmt.Errorf("%w: it ends with entry %d, and entry %d was there: its end is missing", errLog, last.Index,
			agreed)
	}
	var m etcdserverpb.Metadata
	if err := proto.Unmarshal(files.metadata, &m); err != nil {
		return nil, fmt.Errorf("%w: its metadata: %w", errLog, err)
	}
	f := &Folder{Cluster: m.GetClusterID(), Position: last, Log: files.agreed(agreed)}
	return f, r.replay(f, files.entries, agreed)
}

// copyDatabase copies the database while no member has it open, and none can open it.
func (r *reader) copyDatabase(path string) (err error) {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("this is no data folder of etcd: %w", err)
	}
	db, err := bbolt.Open(path, 0o400, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return ErrRunning
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

// open opens the copy.
func (r *reader) open() error {
	if err := r.intact(); err != nil {
		return fmt.Errorf("its database is damaged: %w", err)
	}
	r.be = backend.NewDefaultBackend(r.log, r.copied)
	schema.CreateMetaBucket(r.be.BatchTx()) // a new member has none
	r.applied, _ = schema.ReadConsistentIndex(r.be.ReadTx())
	return nil
}

// intact returns an error if the copy is no well-formed database. What is in its values has no checksum.
func (r *reader) intact() error {
	db, err := bbolt.Open(r.copied, 0o400, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		return revisions(tx)
	})
	if err != nil {
		return err // it is left open: another check of it may go on
	}
	return db.Close()
}

// revisionSize is the size of the key of a record: two numbers and what is between them.
const revisionSize = 8 + 1 + 8

// revisions returns an error if a record is not the one of the revision under which it is stored.
func revisions(tx *bbolt.Tx) error {
	b := tx.Bucket(schema.Key.Name())
	if b == nil {
		return nil
	}
	return b.ForEach(func(key, value []byte) error {
		var kv mvccpb.KeyValue
		if len(key) != revisionSize && !mvcc.IsTombstone(key) {
			return fmt.Errorf("the key %x is no revision", key)
		}
		if err := proto.Unmarshal(value, &kv); err != nil {
			return fmt.Errorf("the record %x: %w", key, err)
		}
		rev := mvcc.BytesToRev(key)
		if !mvcc.IsTombstone(key) && (kv.GetModRevision() != rev.Main || kv.GetCreateRevision() > rev.Main ||
			kv.GetVersion() < 1 || len(kv.GetKey()) == 0) {
			return fmt.Errorf("the record of revision %d has another one, %d", rev.Main, kv.GetModRevision())
		}
		return nil
	})
}

// openSent opens the database that the leader has sent with a snapshot, and that this member had not put in
// the place of its own yet.
func (r *reader) openSent(index uint64) error {
	path, err := snap.New(r.log, filepath.Join(r.dir, "snap")).DBFilePath(index)
	if err != nil {
		return fmt.Errorf("its database is older than its log: %w", err)
	}
	if err := errors.Join(r.be.Close(), r.copyFile(path)); err != nil {
		return err
	}
	return r.open()
}

// replay applies what the copy does not have yet, and reads it.
func (r *reader) replay(f *Folder, entries []*raftpb.Entry, agreed uint64) (err error) {
	ctx := context.Background()
	r.lessor = lease.NewLessor(r.log, r.be, nil, lease.LessorConfig{})
	r.kv = mvcc.NewStore(r.log, r.be, r.lessor, mvcc.StoreConfig{})
	settled := false
	for _, e := range entries {
		if e.GetIndex() <= r.applied {
			continue
		}
		if e.GetIndex() != r.applied+1 {
			return fmt.Errorf("%w: it has no entry %d", errLog, r.applied+1)
		}
		if r.applied = e.GetIndex(); r.applied > agreed && !settled {
			if f.SettledPairs, f.Settled, err = r.pairs(ctx); err != nil {
				return err
			}
			settled = true
		}
		if e.GetType() != raftpb.EntryNormal || len(e.GetData()) == 0 {
			continue
		}
		if err := r.apply(ctx, e); err != nil {
			return fmt.Errorf("entry %d of the log: %w", e.GetIndex(), err)
		}
	}
	f.Pairs, f.Revision, err = r.pairs(ctx)
	if !settled || f.Settled == f.Revision {
		f.Settled, f.SettledPairs = f.Revision, nil // the same
	}
	return err
}

// pairs returns what is stored now.
func (r *reader) pairs(ctx context.Context) ([]*mvccpb.KeyValue, int64, error) {
	got, err := r.kv.Range(ctx, []byte(r.prefix), end(r.prefix), mvcc.RangeOptions{})
	if err != nil {
		return nil, 0, err
	}
	return got.KVs, got.Rev, nil
}

// apply does what etcd does with an entry, as far as it is about keys. A request that fails has failed there
// as well. What has no field of its own here is of the store before version 3.
func (r *reader) apply(ctx context.Context, e *raftpb.Entry) error {
	var q etcdserverpb.InternalRaftRequest
	if err := proto.Unmarshal(e.GetData(), &q); err != nil {
		return nil //nolint:nilerr // a request to the store before version 3
	}
	var err error
	switch {
	case q.GetPut() != nil:
		_, _, err = txn.Put(ctx, r.log, r.lessor, r.kv, q.GetPut())
	case q.GetDeleteRange() != nil:
		_, _, err = txn.DeleteRange(ctx, r.log, r.kv, q.GetDeleteRange())
	case q.GetTxn() != nil:
		_, _, err = txn.Txn(ctx, r.log, q.GetTxn(), false, r.kv, r.lessor, true)
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
