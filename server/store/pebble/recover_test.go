package pebble_test

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.uber.org/goleak"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerFolder); dir != "" {
		writer(dir)
		return
	}
	if os.Getenv(apart) != "" {
		m.Run() // what is halted is left to the end of the process
		return
	}
	goleak.VerifyTestMain(m)
}

// faults fail writes of a file system: the at-th one, and with lasting every one from there on, until healed.
type faults struct {
	at      int64
	lasting bool
	err     error
	count   atomic.Int64
	healed  atomic.Bool
}

func (f *faults) String() string { return fmt.Sprintf("write %d fails", f.at) }

// MaybeError counts what writes. A preallocation is only a wish, and a lock needs no room, so they are left
// alone.
func (f *faults) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpFilePreallocate ||
		op.Kind == errorfs.OpLock || f.healed.Load() {
		return nil
	}
	n := f.count.Add(1)
	if n == f.at || f.lasting && n > f.at {
		return f.err
	}
	return nil
}

// faultOptions make a store that flushes often and tries again at once.
func faultOptions(fs vfs.FS) pebble.Options {
	return pebble.Options{FS: fs, Partitions: 2, MemTableBytes: 32 << 10, RetryAfter: 1}
}

// faultBatches is how many batches a history of writes has; they fill a few memtables.
const faultBatches = 60

// TestFaults fails every single write and sync of a history of groups, once or from there on. Whatever fails,
// the process lives, no acknowledged batch is lost, no other is there in part, no table counts as damaged, and
// the store works again when the disk does.
func TestFaults(t *testing.T) {
	counter := &faults{at: -1}
	history(t, vfs.NewCrashableMem(), counter)
	total := counter.count.Load()
	if total < 2*faultBatches {
		t.Fatalf("the history has only %d writes", total)
	}
	stride := int64(1)
	if testing.Short() {
		stride = 17
	}
	for _, lasting := range []bool{false, true} {
		for at := int64(1); at <= total; at += stride {
			t.Run(fmt.Sprintf("at=%d/lasting=%v", at, lasting), func(t *testing.T) {
				history(t, vfs.NewCrashableMem(), &faults{at: at, lasting: lasting, err: syscall.EIO})
			})
		}
	}
}

// history opens a store, writes both partitions as a group, heals the disk at the first error, writes on, and
// looks at what a crash leaves of it.
func history(t *testing.T, fs *vfs.MemFS, f *faults) {
	t.Helper()
	opt := faultOptions(errorfs.Wrap(fs, f))
	opt.Events.Damaged = func(d store.Damage) { t.Errorf("a table is said to be damaged: %+v", d) }
	s, err := pebble.Open("store", opt)
	if err != nil {
		if _, ok := errors.AsType[*pebble.FolderError](err); !ok {
			t.Fatalf("Open: %v is no FolderError", err)
		}
		f.healed.Store(true)
		if s, err = pebble.Open("store", opt); err != nil {
			t.Fatalf("Open after the disk was healed: %v", err)
		}
	}
	d := &diary{}
	shards := takeOver(t, s, f)
	for range faultBatches {
		n := d.send()
		err := applyAll(s, shards...)(t.Context(), batchOf(n))
		if err == nil {
			d.ack(n)
			continue
		}
		f.healed.Store(true)
		shards = afterFault(t, s, d, err)
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	closing := s.Close()
	if f.count.Load() < f.at && closing != nil {
		t.Fatalf("Close: %v", closing)
	}
	s, err = pebble.Open("store", pebble.Options{FS: crashed})
	if err != nil {
		t.Fatalf("Open after the crash: %v", err)
	}
	if got := presentIn(t, own(t, s, 2)); got < d.acked || got > d.sent {
		t.Errorf("after the crash: batch %d is there, %d was acknowledged, %d sent", got, d.acked, d.sent)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// presentIn is the batch that all shards hold.
func presentIn(t *testing.T, shards []store.Shard) uint64 {
	t.Helper()
	n := present(t, shards[0])
	for p, sh := range shards {
		if got := present(t, sh); got != n {
			t.Fatalf("half a group: partition 0 has batch %d, and partition %d batch %d", n, p, got)
		}
	}
	return n
}

// takeOver claims both partitions; a claim that fails heals the disk.
func takeOver(t *testing.T, s store.Store, f *faults) []store.Shard {
	t.Helper()
	terms, err := s.Leaser().Claim(t.Context(), "node", []int{0, 1}, time.Hour)
	if err != nil {
		f.healed.Store(true)
		claimHealed(t, s)
		return own(t, s, 2)
	}
	shards := make([]store.Shard, len(terms))
	for p := range shards {
		if shards[p], err = s.Shard(p, terms[p]); err != nil {
			t.Fatal(err)
		}
	}
	return shards
}

// claimHealed claims partition 0 of a store whose disk works again. The first try may still meet the failure.
func claimHealed(t *testing.T, s store.Store) store.Shard {
	t.Helper()
	var terms []store.Term
	var err error
	for range 3 {
		if terms, err = s.Leaser().Claim(t.Context(), "node", []int{0}, time.Hour); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatalf("Claim after the disk was healed: %v", err)
	}
	sh, err := s.Shard(0, terms[0])
	if err != nil {
		t.Fatal(err)
	}
	return sh
}

// afterFault does what an owner does after an Apply that did not succeed, and checks what the store then
// holds.
func afterFault(t *testing.T, s store.Store, d *diary, err error) []store.Shard {
	t.Helper()
	outcome := store.OutcomeOf(err)
	if outcome == store.Fenced {
		t.Fatalf("Apply: %v", err)
	}
	claimHealed(t, s)
	shards := own(t, s, 2)
	got := presentIn(t, shards)
	switch {
	case got != d.acked && got != d.sent:
		t.Fatalf("after %v: batch %d is there, %d was acknowledged, %d sent", err, got, d.acked, d.sent)
	case outcome == store.NotApplied && got != d.acked:
		t.Fatalf("after %v: batch %d is there, which was certainly not applied", err, got)
	}
	d.acked, d.sent = got, got
	return shards
}

// seen collects events.
type seen struct {
	mu     sync.Mutex
	events []string
}

func (s *seen) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, text)
}

func (s *seen) count(text string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e == text {
			n++
		}
	}
	return n
}

// TestDiskFull fills the disk: the node lives, says why, still reads, keeps its leases, and goes on when
// there is room.
func TestDiskFull(t *testing.T) {
	f := &faults{at: 120, lasting: true, err: &errFull{}}
	var events seen
	opt := faultOptions(errorfs.Wrap(vfs.NewMem(), f))
	opt.Events = store.Events{
		Failed:    func(err error) { events.add(fmt.Sprint("failed ", errors.Is(err, pebble.ErrDiskFull))) },
		Recovered: func() { events.add("recovered") },
	}
	s := open(t, "store", opt)
	sh := claimHealed(t, s)
	d := &diary{}
	err := fill(t, sh, d)
	if o := store.OutcomeOf(err); o != store.Unknown && o != store.NotApplied ||
		!errors.Is(err, pebble.ErrDiskFull) {
		t.Fatalf("the first Apply on a full disk: %v", err)
	}
	shown := present(t, sh) // what of the unknown reached the disk
	if shown != d.acked && shown != d.sent {
		t.Fatalf("on a full disk batch %d is read; %d was acknowledged, %d sent", shown, d.acked, d.sent)
	}
	for range 5 {
		err := sh.Apply(t.Context(), batchOf(d.sent+1))
		if store.OutcomeOf(err) != store.NotApplied || !errors.Is(err, pebble.ErrDiskFull) {
			t.Fatalf("Apply on a full disk: %v", err)
		}
		if got := present(t, sh); got != shown {
			t.Fatalf("on a full disk batch %d is read after batch %d", got, shown)
		}
	}
	owners, err := s.Leaser().Owners(t.Context())
	if err != nil || owners[0].Node != "node" {
		t.Fatalf("Owners on a full disk: %+v, %v", owners, err)
	}
	if events.count("failed true") != 1 || events.count("recovered") != 0 {
		t.Fatalf("events of a full disk: %v", events.events)
	}
	f.healed.Store(true)
	sh = claimHealed(t, s)
	if err := sh.Apply(t.Context(), batchOf(d.sent+1)); err != nil {
		t.Fatalf("Apply with room again: %v", err)
	}
	if got := present(t, sh); got != d.sent+1 || events.count("recovered") != 1 {
		t.Fatalf("with room again: batch %d, events %v", got, events.events)
	}
}

// TestRecoversWithoutACaller heals the disk of a store that nobody asks for anything: a node that is not
// ready gets no requests.
func TestRecoversWithoutACaller(t *testing.T) {
	f := &faults{at: 120, lasting: true, err: syscall.ENOSPC}
	opt := faultOptions(errorfs.Wrap(vfs.NewMem(), f))
	opt.RetryAfter = time.Millisecond
	failed, recovered := make(chan error, 1), make(chan struct{}, 1)
	opt.Events = store.Events{Failed: func(err error) { failed <- err },
		Recovered: func() { recovered <- struct{}{} }}
	s := open(t, "store", opt)
	d := &diary{}
	sh := claimHealed(t, s)
	if err := fill(t, sh, d); err == nil {
		t.Fatal("the disk never filled")
	}
	if err := <-failed; !errors.Is(err, pebble.ErrDiskFull) {
		t.Fatalf("failed: %v", err)
	}
	f.healed.Store(true)
	<-recovered // the test's own timeout is the limit
	if got := present(t, sh); got != d.acked && got != d.sent {
		t.Errorf("batch %d is there; %d was acknowledged, %d sent", got, d.acked, d.sent)
	}
	if err := sh.Apply(t.Context(), batchOf(d.sent+1)); err != nil {
		t.Errorf("Apply under the old term, which is still in force: %v", err)
	}
}

// smallDisk is a file system that says how much room it has.
type smallDisk struct {
	vfs.FS
	free atomic.Uint64
}

func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: d.free.Load()}, nil
}

func (d *smallDisk) Unwrap() vfs.FS { return d.FS }

// TestNoAttemptWithoutRoom checks that the store does not try to open on a disk that has less room than its
// logs take: what such an attempt leaves behind would eat the room that it waits for.
func TestNoAttemptWithoutRoom(t *testing.T) {
	f := &faults{at: 120, lasting: true, err: syscall.ENOSPC}
	disk := &smallDisk{FS: errorfs.Wrap(vfs.NewMem(), f)}
	opt := faultOptions(disk)
	recovered := make(chan struct{}, 1)
	opt.Events.Recovered = func() { recovered <- struct{}{} }
	s := open(t, "store", opt)
	sh := claimHealed(t, s)
	if err := fill(t, sh, &diary{}); err == nil {
		t.Fatal("the disk never filled")
	}
	f.healed.Store(true)
	disk.free.Store(1 << 20) // enough for the trial write, not for the logs besides
	writes := f.count.Load()
	for range 5 {
		if err := sh.Apply(t.Context(), batchOf(1000)); !errors.Is(err, pebble.ErrDiskFull) {
			t.Fatalf("Apply without room: %v", err)
		}
	}
	if n := f.count.Load(); n != writes {
		t.Errorf("%d writes without room", n-writes)
	}
	disk.free.Store(1 << 30)
	<-recovered // the test's own timeout is the limit
}

// errFull is what a file says when the disk is full.
type errFull struct{}

func (*errFull) Error() string { return "write store/db/000002.log: no space left on device" }
func (*errFull) Unwrap() error { return syscall.ENOSPC }

// fill applies batches until one fails.
func fill(t *testing.T, sh store.Shard, d *diary) error {
	t.Helper()
	for range 1000 {
		n := d.send()
		if err := sh.Apply(t.Context(), batchOf(n)); err != nil {
			return err
		}
		d.ack(n)
	}
	t.Fatal("the disk never filled")
	return nil
}

// TestCloseOnFullDisk closes a store that cannot write: it ends, and says what was wrong.
func TestCloseOnFullDisk(t *testing.T) {
	f := &faults{at: 120, lasting: true, err: syscall.ENOSPC}
	s, err := pebble.Open("store", faultOptions(errorfs.Wrap(vfs.NewMem(), f)))
	if err != nil {
		t.Fatal(err)
	}
	if err := fill(t, claimHealed(t, s), &diary{}); err == nil {
		t.Fatal("the disk never filled")
	}
	if err := s.Close(); !errors.Is(err, pebble.ErrDiskFull) {
		t.Errorf("Close: %v, want ErrDiskFull", err)
	}
	if err := s.Close(); !errors.Is(err, store.ErrClosed) {
		t.Errorf("second Close: %v, want ErrClosed", err)
	}
}

// hitch fails the writes of the log while it is shut, each when it is let go on.
type hitch struct {
	shut atomic.Bool
	goOn chan struct{}
}

func (h *hitch) String() string { return "hitch" }

func (h *hitch) MaybeError(op errorfs.Op) error {
	if !h.shut.Load() || op.Kind != errorfs.OpFileWrite {
		return nil
	}
	<-h.goOn
	return syscall.EIO
}

// What a former owner sees of a batch before that is durable, and then lost, is forgotten when the store
// recovers.
func TestLostBatchIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hitch{goOn: make(chan struct{})}
		fs := vfs.NewMem()
		opt := pebble.Options{FS: errorfs.Wrap(fs, h), Partitions: 1, RetryAfter: 1}
		s, err := pebble.Open("store", opt)
		if err != nil {
			t.Fatal(err)
		}
		dead := run(1, 1000, carillon.RunDead)
		commit(t, own(t, s, 1)[0], store.Batch{Runs: []store.RunRecord{dead}})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, "store", opt)
		sh := own(t, s, 1)[0]
		h.shut.Store(true)
		lost := make(chan error, 1)
		go func() {
			lost <- sh.Apply(t.Context(), &store.Batch{Redrive: []store.RunRef{{Key: dead.Key, ID: dead.ID}}})
		}()
		synctest.Wait()
		refuse(t, s, sh, store.Batch{Runs: []store.RunRecord{run(2, 1001, carillon.RunSucceeded)}})
		h.shut.Store(false)
		close(h.goOn)
		if err := <-lost; store.OutcomeOf(err) != store.Unknown {
			t.Fatalf("Apply: %v", err)
		}
		<-time.After(time.Second) // of the bubble: the store opens again
		sh = own(t, s, 1)[0]
		commit(t, sh, store.Batch{Runs: []store.RunRecord{again(dead)}})
		wantRunOnce(t, sh, again(dead))
	})
}

// unsynced fails the syncs of the log while it is shut.
type unsynced struct{ shut atomic.Bool }

func (u *unsynced) String() string { return "unsynced" }

func (u *unsynced) MaybeError(op errorfs.Op) error {
	if u.shut.Load() && op.Kind == errorfs.OpFileSyncData {
		return syscall.EIO
	}
	return nil
}

// turncoat is a disk that can become another.
type turncoat struct{ vfs.FS }

// What is read between a failed fsync and the recovery may be in the system's memory only: nothing is built
// on it.
func TestWhatWasReadMeanwhileIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, fs := &unsynced{}, vfs.NewCrashableMem()
		disk := &turncoat{fs}
		s := open(t, "store", pebble.Options{FS: errorfs.Wrap(disk, u), Partitions: 1, RetryAfter: time.Hour})
		sh := own(t, s, 1)[0]
		commit(t, sh, store.Batch{Puts: []store.Record{job(1, 5, benchSpec)}})
		u.shut.Store(true)
		if err := sh.Apply(t.Context(), &store.Batch{Puts: []store.Record{job(1, 6,
			nil)}}); store.OutcomeOf(err) != store.Unknown {
			t.Fatalf("Apply: %v", err)
		}
		got, err := sh.Read(t.Context(), []store.Ref{job(1, 0, nil).Ref})
		if err != nil || got[0].State.Due != 6 {
			t.Fatalf("what was not synced is not read: %v, %v", got, err)
		}
		disk.FS = fs.CrashClone(vfs.CrashCloneCfg{})
		u.shut.Store(false)
		<-time.After(2 * time.Hour) // of the bubble: the store opens again
		sh = own(t, s, 1)[0]
		commit(t, sh, store.Batch{Puts: []store.Record{job(1, 7, nil)}})
		got, err = sh.Due(t.Context(), store.DueQuery{Priority: 2, Until: 10, Limit: 10})
		if err != nil || len(got) != 1 || got[0].State.Due != 7 {
			t.Errorf("due: %v, %v", got, err)
		}
	})
}
