package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
)

// badDisk fails operations of a file system while it is broken.
type badDisk struct {
	broken atomic.Bool
	kinds  []errorfs.OpKind // that fail; none = everything that writes
	err    error
}

func (d *badDisk) String() string { return d.err.Error() }

// MaybeError fails what is to fail; the lock is only held, and a preallocation is only a wish.
func (d *badDisk) MaybeError(op errorfs.Op) error {
	if !d.broken.Load() || op.Kind == errorfs.OpLock || op.Kind == errorfs.OpFilePreallocate {
		return nil
	}
	if len(d.kinds) == 0 && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		return d.err
	}
	if slices.Contains(d.kinds, op.Kind) {
		return d.err
	}
	return nil
}

// TestADiskInTrouble breaks the disk of a node under load in several ways. The node stops acknowledging and
// says why, in the answers, in its readiness and in its metrics; it lives and can be read; once the disk is
// well it goes on by itself, although nobody asks for anything; and what it acknowledged is there, then and
// after a crash.
func TestADiskInTrouble(t *testing.T) {
	for name, c := range map[string]struct {
		kinds []errorfs.OpKind
		err   error
		why   string
	}{
		"full":      {nil, syscall.ENOSPC, "the disk is full"},
		"read-only": {nil, syscall.EROFS, "the file system is read-only"},
		"fsync fails": {[]errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo},
			syscall.EIO, "the disk failed"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := &badDisk{kinds: c.kinds, err: c.err}
			fs := vfs.NewCrashableMem()
			config := server.Config{Store: "pebble:store", Partitions: 4}
			s, stop := serveUntil(t, config.OnDisk(errorfs.Wrap(fs, disk)))
			w := &rig{t: t, sched: dial(t, s)}
			acked := w.putUntilRefused(disk, c.why)
			w.inTrouble(s, acked, c.why)
			disk.broken.Store(false)
			eventually(t, "the node is ready again", func() bool { return s.Ready() == nil })
			w.put(carillon.Job{Name: "after", Due: carillon.In(time.Hour)})
			acked = append(acked, "after")
			w.hasJobs(acked)
			if text := metrics(t, s); !strings.Contains(text, "\ncarillon_store_writable 1\n") {
				t.Error("the metrics do not say that the store writes again")
			}

			crashed := fs.CrashClone(vfs.CrashCloneCfg{})
			stop()
			after, stopAfter := serveUntil(t, config.OnDisk(crashed))
			w.sched = dial(t, after)
			w.hasJobs(acked)
			stopAfter()
		})
	}
}

// putUntilRefused puts jobs, breaks the disk and puts on until a put is refused for the reason. It returns
// those that were acknowledged.
func (w *rig) putUntilRefused(disk *badDisk, why string) (acked []string) {
	w.t.Helper()
	for i := range 1000 {
		if i == 20 {
			disk.broken.Store(true)
		}
		job := carillon.Job{Name: fmt.Sprintf("job/%d", i), Due: carillon.In(time.Hour),
			Target: carillon.WorkerQueue(queue)}
		_, err := w.sched.PutJob(w.t.Context(), job)
		switch {
		case err == nil:
			acked = append(acked, job.Name)
			if i >= 20 {
				w.t.Errorf("put %d was acknowledged although nothing can be written", i)
			}
		case i < 20:
			w.t.Fatalf("put %d: %v", i, err)
		default:
			w.refused(err, why)
			return acked
		}
	}
	w.t.Fatal("the disk never failed")
	return nil
}

func (w *rig) refused(err error, why string) {
	w.t.Helper()
	if !errors.Is(err, carillon.Unavailable) || !strings.Contains(err.Error(), why) {
		w.t.Errorf("refused with %q, which is not unavailable because %q", err, why)
	}
}

// inTrouble checks what a node says and does while its disk does not take writes.
func (w *rig) inTrouble(s *server.Server, acked []string, why string) {
	w.t.Helper()
	for i := range 20 { // every partition, also those that have not met the failure yet
		_, err := w.sched.PutJob(w.t.Context(),
			carillon.Job{Name: fmt.Sprintf("refused/%d", i), Target: carillon.WorkerQueue(queue)})
		w.refused(err, why)
	}
	status, text := get(w.t, "http://"+s.HTTPAddr()+"/readyz")
	if status != http.StatusServiceUnavailable || !strings.Contains(text, why) {
		w.t.Errorf("readyz: %d %s", status, text)
	}
	if status, _ := get(w.t, "http://"+s.HTTPAddr()+"/livez"); status != http.StatusOK {
		w.t.Errorf("livez: %d", status)
	}
	text = metrics(w.t, s)
	if !strings.Contains(text, "\ncarillon_store_writable 0\n") ||
		strings.Contains(text, "\ncarillon_commit_failures_total 0\n") {
		w.t.Error("the metrics do not say that the store cannot write")
	}
	w.hasJobs(acked)
}

// hasJobs checks that jobs can be read, one by one and listed.
func (w *rig) hasJobs(names []string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for _, name := range names {
		if _, err := w.sched.GetJob(ctx, key(name)); err != nil {
			w.t.Errorf("get %s: %v", name, err)
		}
	}
	page, err := w.sched.ListJobs(ctx, carillon.JobQuery{PageSize: carillon.MaxBatch})
	if err != nil {
		w.t.Fatalf("list: %v", err)
	}
	listed := map[string]bool{}
	for _, j := range page.Jobs {
		listed[j.Name] = true
	}
	for _, name := range names {
		if !listed[name] {
			w.t.Errorf("%s was acknowledged and is not listed", name)
		}
	}
}

func metrics(t *testing.T, s *server.Server) string {
	t.Helper()
	_, text := get(t, "http://"+s.HTTPAddr()+"/metrics")
	return text
}

// eventually waits until something has become true; nothing tells of it.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick, late := time.NewTicker(2*time.Millisecond), time.NewTimer(patience)
	defer tick.Stop()
	defer late.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
