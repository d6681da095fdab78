package pebble

import (
	"fmt"
	"runtime"
	"strings"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/carillonhq/carillon/server/store"
)

// listener logs what operators should know, and turns what would end the process into a failure of the store.
type listener struct {
	log   store.Logger
	guard *guard
	lost  *losses
}

// Infof logs for debugging.
func (l *listener) Infof(format string, args ...any) {
	l.log.Debug("pebble", "text", fmt.Sprintf(format, args...))
}

// Errorf logs for debugging: what matters comes as an event.
func (l *listener) Errorf(format string, args ...any) { l.Infof(format, args...) }

// Fatalf is called where Pebble expects the process to end. It fails the store instead; nothing reaches the
// disk afterwards.
func (l *listener) Fatalf(format string, args ...any) {
	l.guard.fail(fatalError(format, args))
}

// fatalError returns the cause if there is one.
func fatalError(format string, args []any) error {
	for _, a := range args {
		if err, ok := a.(error); ok {
			return err
		}
	}
	return fmt.Errorf(format, args...)
}

// events returns the listener in Pebble's form.
func (l *listener) events() *pebbledb.EventListener {
	return &pebbledb.EventListener{
		BackgroundError: l.background,
		DataCorruption:  l.corrupt,
		WriteStallBegin: l.stall,
	}
}

// corrupt is called by the reader of a damaged block, before that gets the error. After a failure it may be a
// table that Pebble believes to have written: nothing is lost by that, since what it was to hold is still in
// the log. A table that is really damaged is found again by the engine that recovers.
func (l *listener) corrupt(info pebbledb.DataCorruptionInfo) {
	if !l.guard.void() {
		l.lost.found(info.Path, info.Bounds.Start, info.Bounds.End.Key, info.Details)
	}
	if panics() {
		l.lost.halt()
	}
}

// panicking is the function of Pebble's compactions that panics if what follows a SingleDelete cannot be
// read.
const panicking = "skipDueToSingleDeleteElision"

// panics reports whether the calling goroutine would end the process because of the damage: it is one of
// Pebble's own, so nothing could recover it. It is halted where it is instead, without holding the store's
// mutex, until the process ends. The tables that it was merging stay taken, so no other compaction meets the
// damage, and Pebble's Close would wait for it for ever (engine.release).
func panics() bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, panicking) {
			return true
		}
		if !more {
			return false
		}
	}
}

// background reports a failure; damage was reported when it was found.
func (l *listener) background(err error) {
	if !pebbledb.IsCorruptionError(err) {
		l.log.Error("the store's housekeeping failed", "error", err)
	}
}

// stall reports that writes wait for the disk to catch up.
func (l *listener) stall(info pebbledb.WriteStallBeginInfo) {
	l.log.Warn("the store waits for the disk", "reason", info.Reason)
}
