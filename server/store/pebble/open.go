package pebble

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/mackey"
	"github.com/carillonhq/carillon/server/store/members"
)

// Store is a store in a folder.
type Store struct {
	opt       Options
	folder    *folder
	meta      store.Meta
	parts     []*partition
	members   *members.Registry
	owners    *owners
	engines   holder
	committer *committer
	running   sync.WaitGroup // committer and syncer

	mu     sync.RWMutex // read-locked while a request is handed over
	closed bool
}

var _ store.Store = (*Store)(nil)

// Open opens the store in a folder, or creates one there. Its errors are [*FolderError].
func Open(dir string, opt Options) (*Store, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	if opt.Existing {
		if _, err := opt.FS.Stat(dir); err != nil {
			return nil, &FolderError{Kind: store.ErrNoStore, Dir: dir, Err: err}
		}
	}
	f, err := openFolder(dir, &opt)
	if err != nil {
		return nil, notOpened(err)
	}
	if opt.Existing && !f.ready {
		_ = f.lock.Close() // the error that counts is there
		return nil, &FolderError{Kind: store.ErrNoStore, Dir: dir, Err: errors.New("the folder has none")}
	}
	if mode, is := f.exposed(); is {
		opt.Log.Warn("others may look into the store's folder, which holds payloads and the key of tokens: chmod 700 it",
			"folder", f.dir, "mode", fmt.Sprintf("%#o", mode))
	}
	s := &Store{opt: opt, folder: f, members: members.New(opt.Now)}
	if err := s.load(); err != nil {
		_ = f.lock.Close() // the error that counts is there
		return nil, notOpened(err)
	}
	s.committer = newCommitter(s)
	s.running.Go(s.committer.run)
	s.running.Go(s.committer.sync)
	return s, nil
}

// load opens Pebble and reads what must be known before any request.
func (s *Store) load() error {
	e, err := s.openForWriting(s.loadFrom)
	if err != nil {
		return err
	}
	if err := s.folder.finish(); err != nil {
		_ = e.close() // the error that counts is there
		return err
	}
	s.engines.now = e
	return nil
}

// openForWriting opens Pebble and has f write what must be there before anything else.
func (s *Store) openForWriting(f func(e *engine) error) (*engine, error) {
	e, err := openEngine(s.folder, &s.opt, false)
	if err != nil {
		return nil, err
	}
	err = f(e)
	if err = cmp.Or(e.failure(), err); err != nil {
		_ = e.close() // the error that counts is there
		return nil, folderError(s.folder.dir, err)
	}
	return e, nil
}

// loadFrom reads or creates the store's metadata, and counts this open.
func (s *Store) loadFrom(e *engine) error {
	m, err := readMeta(e.db)
	if errors.Is(err, pebbledb.ErrNotFound) && !s.folder.ready {
		m, err = newMeta(s.opt), nil
	}
	if err != nil {
		return err
	}
	if err := store.CheckAsIs(m.Format, s.opt.AsIs); err != nil {
		return &FolderError{Kind: store.ErrOutdated, Dir: s.folder.dir,
			Err: fmt.Errorf("its format is %d, this program writes %d", m.Format, store.Format())}
	}
	if store.Extends(m.Format) {
		if err := s.extend(e, &m); err != nil {
			return err
		}
		m.Format = store.Format()
	}
	if err := store.CheckFormat(m.Format); err != nil {
		kind := ErrOlder
		if errors.Is(err, store.ErrNewerFormat) {
			kind = ErrNewer
		}
		return &FolderError{Kind: kind, Dir: s.folder.dir,
			Err: fmt.Errorf("its format is %d, this program knows %d", m.Format, store.Format())}
	}
	m.Boot++
	if err := m.write(e.db); err != nil {
		return err
	}
	if !s.folder.ready {
		// The first log was begun before its format was raised: in it, damage looks like an unfinished end.
		// Begin another.
		if err := e.db.Flush(); err != nil {
			return err
		}
	}
	s.meta = store.Meta{Format: m.Format, Partitions: m.Partitions, MACKey: m.MACKey}
	for range m.Partitions {
		s.parts = append(s.parts, &partition{marks: newMarks(),
			heads: newHeadCache(headCacheBytes / m.Partitions), historyFilter: newHistoryFilter(m.Partitions)})
	}
	s.owners, err = loadOwners(e.db, m.Partitions, m.Boot)
	return err
}

// meta is the metadata of the whole store.
type meta struct {
	Format     int    `json:"format"`
	Partitions int    `json:"partitions"`
	MACKey     []byte `json:"mac_key"`
	Boot       uint64 `json:"boot"` // how often the store was opened for writing
}

func newMeta(o Options) meta {
	return meta{Format: store.Format(), Partitions: o.Partitions, MACKey: mackey.New(o.MACKey),
		Boot: o.Epoch >> 32} // the first open counts one more: see nextEpoch
}

func metaKey() []byte { return appendHead(nil, storePartition, kindMeta) }

func readMeta(db *pebbledb.DB) (m meta, err error) {
	value, closer, err := db.Get(metaKey())
	if err != nil {
		return meta{}, err
	}
	err = json.Unmarshal(value, &m)
	if err != nil || m.Format < 1 || m.Partitions < 1 || m.Partitions > store.MaxPartitions {
		err = fmt.Errorf("metadata %q: %w", value, errKey)
	}
	return m, errors.Join(err, closer.Close())
}

func (m *meta) write(db *pebbledb.DB) error {
	value, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return db.Set(metaKey(), value, pebbledb.Sync)
}

// Shard returns a partition for the owner of a term.
func (s *Store) Shard(number int, term store.Term) (store.Shard, error) {
	p, err := s.partition(number)
	if err != nil {
		return nil, err
	}
	return &shard{s: s, number: number, term: term, part: p}, nil
}

func (s *Store) partition(number int) (*partition, error) {
	if number < 0 || number >= len(s.parts) {
		return nil, fmt.Errorf("store: no partition %d of %d", number, len(s.parts))
	}
	return s.parts[number], nil
}

// Leaser returns the keeper of members and owners.
func (s *Store) Leaser() store.Leaser { return leaser{s.members, s} }

// Meta returns what the store was created with.
func (s *Store) Meta() store.Meta { return s.meta.Clone() }

// send hands a request to the committer. ctx bounds the wait for room in the queue. After an error done is
// not called.
func (s *Store) send(ctx context.Context, req *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	select {
	case s.committer.queue <- req:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// await hands a request to the committer and waits for its outcome.
func (s *Store) await(ctx context.Context, req *request) error {
	outcome := make(chan error, 1)
	req.done = func(err error) { outcome <- err }
	if err := s.send(ctx, req); err != nil {
		return err
	}
	return <-outcome
}

// Close waits for what is under way and closes the folder. It reports what a failed disk kept from being
// written.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return store.ErrClosed
	}
	s.closed = true
	close(s.committer.queue)
	s.mu.Unlock()
	s.running.Wait()
	s.engines.mu.Lock()
	defer s.engines.mu.Unlock()
	err := s.engines.why
	if e := s.engines.now; e != nil {
		err = cmp.Or(err, e.close())
		close(e.gone)
	}
	s.engines.now, s.engines.why = nil, store.ErrClosed
	return errors.Join(err, s.folder.lock.Close())
}
