package sim

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// sleep is what becomes of a worker whose process is stopped. Its streams last, and what comes through them
// waits in its buffers. When it goes on it does as the SDK does: it asks about the runs that it finds there
// before it begins them. The worker's lock guards it.
type sleep struct {
	over    chan struct{} // closed when it goes on; nil = it is awake
	backlog []buffered
	asking  []late
}

// buffered is a message that has come in the worker's sleep.
type buffered struct {
	conn *conn
	msg  carillon.WorkResponse
}

// late is a run that has waited for the worker.
type late struct {
	conn *conn
	run  carillon.Run
}

// stop lets the process stand still.
func (k *worker) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sleep.over = make(chan struct{})
}

// wake lets it go on.
func (k *worker) wake() {
	k.mu.Lock()
	over, backlog := k.sleep.over, k.sleep.backlog
	k.sleep.over, k.sleep.backlog = nil, nil
	k.mu.Unlock()
	close(over)
	for i := range backlog {
		b := &backlog[i]
		k.answer(b.conn, &b.msg)
		for _, r := range b.msg.Runs {
			k.mu.Lock()
			k.sleep.asking = append(k.sleep.asking, late{b.conn, r})
			k.mu.Unlock()
			k.w.rec.Heartbeat(checker.Heartbeat{RunID: r.ID, Token: r.Token})
			question := carillon.Heartbeat{Token: r.Token, RunID: r.ID, Confirm: true}
			k.send(b.conn.node.number, carillon.WorkRequest{Heartbeats: []carillon.Heartbeat{question}})
		}
	}
}

// awake returns when the process does not stand still.
func (k *worker) awake(actor int) {
	for {
		k.mu.Lock()
		over := k.sleep.over
		k.mu.Unlock()
		if over == nil {
			return
		}
		<-over
		pause(actor, time.Millisecond)
	}
}

// buffered keeps a message for later while the process stands still. What it brings has come.
func (k *worker) buffered(c *conn, msg *carillon.WorkResponse) bool {
	k.mu.Lock()
	stopped := k.sleep.over != nil
	if stopped {
		k.sleep.backlog = append(k.sleep.backlog, buffered{c, *msg})
	}
	k.mu.Unlock()
	for i := range msg.Runs {
		if stopped {
			k.note(c, &msg.Runs[i])
		}
	}
	return stopped
}

// confirmed begins the late runs that are in force, and gives up the others.
func (k *worker) confirmed(msg *carillon.WorkResponse) {
	for _, token := range msg.Confirmed {
		if l, ok := k.asked(token); ok {
			k.w.rec.Begun(checker.Begin{RunID: l.run.ID, Number: l.run.Attempt, Worker: k.plan.Name})
			k.begin(l.conn, &l.run)
		}
	}
	for _, token := range msg.Stale {
		if l, ok := k.asked(token); ok {
			k.gaveUp(&l.run)
			k.send(l.conn.node.number, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: l.run.Queue, N: 1}}})
		}
	}
}

// asked takes a run about which the worker has asked.
func (k *worker) asked(token string) (l late, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.sleep.asking {
		if l = k.sleep.asking[i]; l.run.Token == token {
			k.sleep.asking = append(k.sleep.asking[:i:i], k.sleep.asking[i+1:]...)
			return l, true
		}
	}
	return late{}, false
}
