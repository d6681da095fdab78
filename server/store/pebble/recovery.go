package pebble

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// recovery keeps the recovery point of an engine in a file of its own while the engine writes.
//
// Every fsync of a log moves the point before anything that waits for that fsync is told. That write of the
// point is not synced at once, which would double the time of a commit. The system has it, so the point is
// exact however the process ends, and after a loss of power it is behind by [recoveryLag] at most. So what a
// log may lack unnoticed is nothing after a kill, and after a loss of power what the last moments before it
// wrote.
//
// What makes the point smaller, and what concerns the manifest, is synced at once: a point must never ask for
// what is not there.
//
// The file has three slots that are written in turn: one that is synced, one that is being synced, one that
// is written.
type recovery struct {
	guard *guard
	file  vfs.File
	wake  chan struct{} // capacity 1; filled if the slot was written since the last sync
	stop  chan struct{}
	done  sync.WaitGroup

	mu    sync.Mutex // of the fields up to buf
	point recoveryPoint
	slot  int
	dirty bool // the slot was written since the last sync
	buf   []byte

	syncing sync.Mutex // one sync at a time
}

// recoveryLag is the longest time between a write of the recovery point and the sync after it.
const recoveryLag = 20 * time.Millisecond

// errManyFiles reports that Pebble has more logs and manifests than a recovery point holds.
var errManyFiles = errors.New("too many logs for the recovery point")

// newRecovery takes over the point of the file, which it writes again, durably.
func newRecovery(f *folder, g *guard, p recoveryPoint) (*recovery, error) {
	r := &recovery{guard: g, point: p, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	r.point.version++
	if err := f.replace(recoveryFile, append(r.point.append(nil),
		make([]byte, slots*slotSize)...)[:slots*slotSize]); err != nil {
		return nil, err
	}
	file, err := f.fs.OpenReadWrite(f.file(recoveryFile), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	if err := f.hold(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	r.file, r.slot = file, 1
	r.done.Go(r.run)
	return r, nil
}

// run syncs the point in the background.
func (r *recovery) run() {
	for {
		select {
		case <-r.wake:
		case <-r.stop:
			return
		}
		r.sync()
		select {
		case <-time.After(recoveryLag):
		case <-r.stop:
			return
		}
	}
}

// note changes the point; it is synced within recoveryLag.
func (r *recovery) note(change func(p *recoveryPoint)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.guard.void() {
		return
	}
	change(&r.point)
	r.point.version++
	if len(r.point.files) > mostExtents {
		r.guard.fail(fmt.Errorf("%w: %d", errManyFiles, len(r.point.files)))
		return
	}
	r.buf = r.point.append(r.buf[:0])
	if _, err := r.file.WriteAt(r.buf, int64(r.slot)*slotSize); err != nil {
		r.guard.fail(err)
		return
	}
	r.dirty = true
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// commit changes the point and returns when that is durable, or the guard has failed.
func (r *recovery) commit(change func(p *recoveryPoint)) {
	r.note(change)
	r.sync()
}

// sync makes everything noted so far durable.
func (r *recovery) sync() {
	r.syncing.Lock()
	defer r.syncing.Unlock()
	if !r.turn() {
		return
	}
	if err := r.file.SyncData(); err != nil {
		r.guard.fail(err)
	}
}

// turn starts another slot, so that the one to be synced stays as it is; false: there is nothing to sync.
func (r *recovery) turn() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dirty || r.guard.void() {
		return false
	}
	r.dirty, r.slot = false, (r.slot+1)%slots
	return true
}

// close ends the background work. After a clean close of the store the logs hold nothing any more.
func (r *recovery) close(clean bool) error {
	close(r.stop)
	r.done.Wait()
	if clean {
		r.commit(func(p *recoveryPoint) {
			p.clean = true
			p.drop(func(e extent) bool { return e.kind == extentLog })
		})
	}
	return r.file.Close()
}

// synced moves the point to the end of what an fsync made durable.
func (r *recovery) synced(e extent) {
	move := func(p *recoveryPoint) {
		p.clean = false
		if at := p.find(e.kind, e.number); at != nil {
			*at = e
			return
		}
		p.files = append(p.files, e)
	}
	if e.kind == extentManifest {
		r.commit(move)
		return
	}
	r.note(move)
}

// forget removes a file from the point before it is removed or reused.
func (r *recovery) forget(kind byte, number uint64) {
	r.mu.Lock()
	known := r.point.find(kind, number) != nil
	r.mu.Unlock()
	if known {
		r.commit(func(p *recoveryPoint) {
			p.drop(func(e extent) bool { return e.kind == kind && e.number == number })
		})
	}
}

// moved records the generation of the marker file in force.
func (r *recovery) moved(marker uint64) {
	r.commit(func(p *recoveryPoint) { p.marker = max(p.marker, marker) })
}
