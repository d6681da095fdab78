package etcd

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/contents"
	"github.com/carillonhq/carillon/server/store/inuse"
)

// replica is what a partition holds, in memory, as it was at one revision of its head. Every batch writes the
// head, so the replica is what etcd has while the head has that revision: the owner's stays so by its own
// batches, another node's is read again when it is asked for and the partition was written.
type replica struct {
	place

	s     *Store
	turn  inuse.Turn              // had while somebody loads or applies
	is    atomic.Pointer[version] // nil: not known
	owned atomic.Bool             // this process has claimed it: it stays in memory
	read  atomic.Bool             // since the maintainer looked last
}

// version is what a partition holds at a revision of its head. It is never changed: a batch changes a copy,
// which takes its place when etcd has the batch. So reads see nothing that is not durable, and wait for
// nothing that is on its way.
type version struct {
	headAt

	holds    *contents.Partition
	pending  *commitValue // a batch that is committed and not in place yet
	orphaned bool         // there are parts of batches that were never committed
}

// headAt is the head of a partition and the revision at which it was written.
type headAt struct {
	head     []byte
	revision int64
}

// has reports whether what was found is that head, of that revision.
func (h *headAt) has(found []*mvccpb.KeyValue) bool {
	return len(found) == 1 && found[0].ModRevision == h.revision && bytes.Equal(found[0].Value, h.head)
}

func newReplica(s *Store, number int) *replica {
	return &replica{s: s, place: s.keys.place(number), turn: inuse.NewTurn()}
}

// forget makes the next read or write load the partition.
func (r *replica) forget() { r.is.Store(nil) }

// own notes whether this process has claimed the partition. One that it has not is not kept.
func (r *replica) own(owned bool) {
	if r.owned.Swap(owned) && !owned {
		r.forget()
	}
}

// rest forgets a partition of another process that nobody has read since the last time.
func (r *replica) rest() {
	if !r.read.Swap(false) && !r.owned.Load() {
		r.forget()
	}
}

// since returns what the partition holds, if that is known as of a revision of its head or a later one.
func (r *replica) since(revision int64) *contents.Partition {
	if v := r.is.Load(); v != nil && v.revision >= revision {
		return v.holds
	}
	return nil
}

// current returns what the partition holds, with every batch that was acknowledged before the call.
func (r *replica) current(ctx context.Context) (*contents.Partition, error) {
	r.read.Store(true)
	newest, err := r.s.heads.newest(ctx, r.number)
	if err != nil {
		return nil, err
	}
	if p := r.since(newest); p != nil {
		return p, nil
	}
	if err := r.turn.Take(ctx, nil); err != nil {
		return nil, err
	}
	defer r.turn.Give()
	if p := r.since(newest); p != nil { // somebody else has loaded it, or applied
		return p, nil
	}
	v, err := r.load(ctx)
	if err != nil {
		return nil, failure(err)
	}
	return v.holds, nil
}

// pageKeys is how many keys are read at once.
const pageKeys = 1000

// load reads the partition. The caller holds the lock.
func (r *replica) load(ctx context.Context) (*version, error) {
	for {
		l := loading{r: r, parts: map[string]bool{}, batch: &store.Batch{}}
		err := l.read(ctx)
		if is(err, rpctypes.ErrGRPCCompacted) && ctx.Err() == nil {
			continue // it took so long that its revision is gone
		}
		if err != nil {
			return nil, fmt.Errorf("read partition %d: %w", r.number, err)
		}
		v := &version{headAt: headAt{l.head, l.revision}, holds: contents.New(r.number), pending: l.commit,
			orphaned: len(l.parts) > 0 && l.commit == nil}
		v.holds.Change(l.batch, nil)
		r.is.Store(v)
		return v, nil
	}
}

// loading is one load of a partition.
type loading struct {
	r        *replica
	revision int64
	head     []byte
	commit   *commitValue
	values   map[string][]byte // all keys, if there is a commit whose parts are not all in place
	parts    map[string]bool
	batch    *store.Batch
}

// read reads the head, and everything else at the same revision of etcd, page by page.
func (l *loading) read(ctx context.Context) error {
	r, keys := l.r, l.r.s.keys
	page := under(r.prefix)
	page.Limit = pageKeys
	found, revision, err := r.s.wire.read(ctx, one(keys.head(r.number)), one(keys.commit(r.number)), page)
	if err != nil {
		return err
	}
	for _, kv := range found[0].Kvs {
		l.revision, l.head = kv.ModRevision, kv.Value
	}
	for _, kv := range found[1].Kvs {
		l.commit, l.values = &commitValue{}, map[string][]byte{}
		if err := decode(kv.Key, kv.Value, l.commit); err != nil {
			return err
		}
	}
	for answer := found[2]; ; {
		for _, kv := range answer.Kvs {
			if err := l.take(kv); err != nil {
				return err
			}
		}
		if !answer.More {
			break
		}
		page.Key = append(bytes.Clone(answer.Kvs[len(answer.Kvs)-1].Key), 0)
		page.Revision = revision
		if answer, err = r.s.wire.get(ctx, page); err != nil {
			return err
		}
	}
	if l.commit != nil {
		return l.overlay()
	}
	return nil
}

// take notes a key of the partition.
func (l *loading) take(kv *mvccpb.KeyValue) error {
	if bytes.HasPrefix(kv.Key, l.r.s.keys.parts(l.r.number, "")) {
		l.parts[string(kv.Key)] = true
	}
	if l.values != nil {
		l.values[string(kv.Key)] = kv.Value
		return nil
	}
	return l.parse(kv.Key, kv.Value)
}

// overlay does what the parts of a committed batch say that are not in place yet, as who claims the partition
// will, and parses the outcome.
func (l *loading) overlay() error {
	for n := range l.commit.Parts {
		key := l.r.s.keys.part(l.r.number, l.commit.ID, n)
		value, waits := l.values[string(key)]
		if !waits {
			continue
		}
		ops, err := parsePart(value)
		if err != nil {
			return damaged(key, err)
		}
		for _, op := range ops {
			switch op := op.Request.(type) {
			case *etcdserverpb.RequestOp_RequestPut:
				l.values[string(op.RequestPut.Key)] = op.RequestPut.Value
			case *etcdserverpb.RequestOp_RequestDeleteRange:
				delete(l.values, string(op.RequestDeleteRange.Key))
			default:
				return damaged(key, errNoOps)
			}
		}
	}
	for key, value := range l.values {
		if err := l.parse([]byte(key), value); err != nil {
			return err
		}
	}
	return nil
}

// parse reads a key of the partition and its value.
func (l *loading) parse(key, value []byte) error {
	rest := key[len(l.r.prefix):]
	switch {
	case bytes.HasPrefix(rest, []byte(jobsFolder)):
		rec, err := parseRecord(value)
		if err == nil {
			rec.Ref, err = parseRef(rest[len(jobsFolder):])
		}
		if err != nil {
			return damaged(key, err)
		}
		l.batch.Puts = append(l.batch.Puts, rec)
	case bytes.HasPrefix(rest, []byte(runsFolder)):
		run, err := codec.DecodeRun(value)
		if err != nil {
			return damaged(key, err)
		}
		l.batch.Runs = append(l.batch.Runs, run)
	case bytes.HasPrefix(rest, []byte(metaFolder)):
		m, err := parseMeta(rest[len(metaFolder):], value)
		if err != nil {
			return damaged(key, err)
		}
		l.batch.MetaRecords = append(l.batch.MetaRecords, m)
	case !bytes.HasPrefix(key, l.r.s.keys.parts(l.r.number, "")):
		return damaged(key, errStrange)
	}
	return nil
}
