package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/reconnect"
)

// connector keeps the worker connected. Its fields belong to the goroutine of Run.
type connector struct {
	worker   *Worker
	log      *slog.Logger
	inFlight *inFlight
	stop     context.CancelCauseFunc // of all handlers

	current *link // that the worker sends through; nil: none
	open    int   // links still being read, current included
	ended   chan *link

	wantSession   bool        // another session is to become the current one
	opening       chan opened // where the outcome of opening it will come; nil: none is being opened
	cancelOpening context.CancelFunc
	backoff       reconnect.Backoff

	leaving bool
	overdue bool // the grace period and the wait after it are over
}

// opened is the outcome of opening a session.
type opened struct {
	session carillon.Session
	err     error
}

func newConnector(ctx context.Context, w *Worker) *connector {
	base, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	log := w.options.Log.With("worker", w.options.ID)
	return &connector{
		worker: w, log: log, inFlight: newInFlight(base, log, w.queues), stop: stop,
		ended: make(chan *link), wantSession: true,
	}
}

// run connects, and connects again, until the worker has left.
func (c *connector) run(ctx context.Context) error {
	leave := ctx.Done()
	grace := time.NewTimer(c.worker.options.Grace)
	grace.Stop() // it starts when the worker leaves
	for !c.finished() {
		c.connect()
		var err error
		select {
		case <-leave:
			leave = nil
			c.startLeaving()
			grace.Reset(c.worker.options.Grace)
		case <-grace.C:
			c.endGrace(grace)
		case o := <-c.opening:
			err = c.connected(o)
		case l := <-c.ended:
			err = c.lost(l)
		case <-c.reconnectAsked():
			c.log.Info("the server asks the worker to connect again")
			c.wantSession = true
		case <-c.inFlight.drained:
		}
		if err != nil {
			return c.refused(err)
		}
	}
	return c.leave()
}

// connect starts to open a session if one is wanted.
func (c *connector) connect() {
	if !c.wantSession || c.opening != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancelOpening = cancel
	out := make(chan opened, 1)
	c.opening = out
	backoff := c.backoff
	go func() {
		var o opened
		o.session, o.err = reconnect.Connect(ctx, backoff, c.worker.open)
		out <- o
	}()
}

// connected handles the outcome of opening a session. The old session sends its last message before the new
// one starts, so that nothing is sent twice.
func (c *connector) connected(o opened) error {
	c.opening = nil
	c.cancelOpening()
	if o.err != nil {
		c.backoff = c.backoff.Next()
		// then the goodbye goes through the old one
		c.wantSession = c.wantSession && !(c.leaving && c.current != nil)
		if fatal(o.err) {
			return o.err
		}
		c.log.Warn("the worker could not connect", "error", o.err, "again_after", time.Duration(c.backoff))
		return nil
	}
	again := c.current != nil
	if again {
		c.current.retire(farewell{})
		<-c.current.written
	}
	c.wantSession = false
	c.open++
	c.current = newLink(o.session, c.inFlight, c.ended)
	if !again || !c.leaving { // the session that is opened only to leave is not worth a line
		c.log.Info("the worker is connected")
	}
	return nil
}

// lost handles the end of a session.
func (c *connector) lost(l *link) error {
	c.open--
	if l != c.current {
		return nil // it was retired
	}
	c.current, c.wantSession = nil, true
	c.backoff = c.backoff.Lost(time.Since(l.since))
	if fatal(l.err) {
		return l.err
	}
	c.log.Warn("the worker lost its connection", "error", l.err)
	return nil
}

// reconnectAsked returns a channel that receives when the server wants the worker to reconnect; nil while it
// is doing so.
func (c *connector) reconnectAsked() <-chan struct{} {
	if c.current == nil || c.wantSession {
		return nil
	}
	return c.current.reconnect
}

// fatal reports whether connecting again is useless.
func fatal(err error) bool {
	switch carillon.KindOf(err) {
	case carillon.InvalidArgument, carillon.Unauthenticated, carillon.PermissionDenied,
		carillon.FailedPrecondition:
		return true
	}
	return false
}

// startLeaving stops accepting work. Credits cannot be taken back, but a new session has none: the worker
// goes on with it.
func (c *connector) startLeaving() {
	c.leaving = true
	c.inFlight.stopGranting()
	c.log.Info("the worker is leaving", "grace", c.worker.options.Grace)
	if c.current != nil {
		c.wantSession, c.backoff = true, 0
	}
}

// endGrace ends the handlers' contexts; the second time it ends the wait for them.
func (c *connector) endGrace(grace *time.Timer) {
	if c.inFlight.base.Err() == nil {
		c.stop(ErrLeaving)
		grace.Reset(c.worker.options.ReturnTime)
		return
	}
	c.overdue = true
}

// finished reports whether the worker may go: it has nothing more to do or to send, and nothing more can
// come.
func (c *connector) finished() bool {
	if !c.leaving || c.overdue {
		return c.leaving
	}
	has := c.inFlight.remaining()
	switch {
	case c.inFlight.base.Err() != nil && has.running+has.unsure == 0: // the rest was not started, or gave up
		return true
	case has.unfinished+has.unsure+has.held > 0:
		return false
	case c.current == nil:
		return c.open == 0
	}
	return !c.wantSession && c.open == 1
}

// leave ends the last session, with a goodbye if the server may still count on the worker, and returns what
// was left.
func (c *connector) leave() error {
	before := c.inFlight.remaining()
	c.end(farewell{results: true, goodbye: before.unfinished+before.unsure+before.granted > 0})
	unsure := c.inFlight.remaining().unsure // more answers have come meanwhile
	c.log.Info("the worker has left")
	if before.unfinished+unsure == 0 {
		return nil
	}
	return fmt.Errorf("worker: left with %d runs given back unfinished and %d results that the server has not confirmed",
		before.unfinished, unsure)
}

// refused ends everything because the server refuses the worker.
func (c *connector) refused(err error) error {
	c.inFlight.stopGranting()
	c.end(farewell{goodbye: true})
	return fmt.Errorf("worker: refused by the server: %w", err)
}

// end closes all sessions and waits for them.
func (c *connector) end(last farewell) {
	c.stop(ErrLeaving)
	c.inFlight.refuseRuns()
	if c.opening != nil {
		c.cancelOpening()
		if o := <-c.opening; o.session != nil {
			_ = o.session.Close() // it was not used
		}
	}
	if c.current != nil {
		c.current.retire(last)
	}
	for ; c.open > 0; c.open-- {
		<-c.ended
	}
}
