package engine

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// auditLog tells of audit entries that are durable, by a goroutine of its own, which lives as long as there
// are some: who is told writes to a log, which may stall, and no lane waits for that.
type auditLog struct {
	log  *slog.Logger
	told func(key string, e *store.AuditEntry, hash []byte) // nil: nobody is

	mu      sync.Mutex
	waiting []store.MetaRecord
	bytes   int           // of those that wait or are being told of
	leftOut int           // of which nobody was told, as there were too many
	idle    chan struct{} // closed when the goroutine ends; nil: there is none
}

const (
	// auditLogBytes bounds the entries that wait, as a log stalls: of some ten thousand of them.
	auditLogBytes = 4 << 20
	// auditLogWithin is how long a stop waits for a log.
	auditLogWithin = 2 * time.Second
)

// note has the audit entries of a durable batch told of.
func (l *auditLog) note(records []store.MetaRecord) {
	if l.told == nil || !slices.ContainsFunc(records, isAuditEntry) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range records {
		if r := &records[i]; !isAuditEntry(*r) {
			continue
		} else if size := len(r.Key) + len(r.Value); l.bytes+size <= auditLogBytes {
			l.waiting, l.bytes = append(l.waiting, *r), l.bytes+size
		} else {
			l.leftOut++
		}
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
		go l.tell(l.idle)
	}
}

func isAuditEntry(r store.MetaRecord) bool { return r.Kind == store.KindAudit && r.Value != nil }

// tell tells of entries until none wait.
func (l *auditLog) tell(idle chan struct{}) {
	for {
		l.mu.Lock()
		some, leftOut := l.waiting, l.leftOut
		l.waiting, l.leftOut = nil, 0
		if len(some) == 0 && leftOut == 0 {
			l.idle = nil
			close(idle)
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		for i := range some {
			l.tellOf(&some[i])
		}
		if leftOut > 0 {
			l.log.Error("audit entries have no line in the log, which was too slow; the store has them",
				"left_out", leftOut)
		}
	}
}

func (l *auditLog) tellOf(r *store.MetaRecord) {
	e, err := codec.DecodeAudit(r.Value)
	if err != nil { // this node has just encoded it
		l.log.Error("an audit entry cannot be read", "key", r.Key, "error", err)
	} else {
		l.told(r.Key, &e, store.AuditHash(r.Key, r.Value))
	}
	l.mu.Lock()
	l.bytes -= len(r.Key) + len(r.Value)
	l.mu.Unlock()
}

// flush waits until all are told of, or the log has stalled for too long.
func (l *auditLog) flush() {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	if idle == nil {
		return
	}
	t := time.NewTimer(auditLogWithin)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
	}
}
