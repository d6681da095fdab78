package worker

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
)

// link is one session with the two goroutines that read and write it.
type link struct {
	session  carillon.Session
	inFlight *inFlight
	since    time.Time
	ctx      context.Context // of Send and Receive
	cancel   context.CancelFunc

	reconnect chan struct{} // capacity 1; filled when the server asks the worker to reconnect
	retired   chan struct{} // closed when another session takes over, or the worker leaves
	once      sync.Once     // of retired
	farewell  farewell      // set before retired is closed
	written   chan struct{} // closed when the writer has ended
	writeFail error         // why the writer ended, if not retired; read after written
	err       error         // why the session is over
}

// newLink starts to read and write a session; ended gets the link when the session is over.
func newLink(s carillon.Session, d *inFlight, ended chan<- *link) *link {
	l := &link{session: s, inFlight: d, since: time.Now(),
		reconnect: make(chan struct{}, 1), retired: make(chan struct{}), written: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	d.attach(l)
	go l.write()
	go func() {
		l.err = l.read()
		l.retire(farewell{})
		<-l.written
		if fatal(l.writeFail) {
			l.err = l.writeFail
		}
		l.cancel()
		ended <- l
	}()
	return l
}

// read handles the server's messages until the session is over.
func (l *link) read() error {
	for {
		msg, err := l.session.Receive(l.ctx)
		if err != nil {
			return err
		}
		l.inFlight.receive(l, &msg)
		if msg.Drain {
			signal(l.reconnect)
		}
	}
}

// write sends what there is to send until the link is retired, then closes the session.
func (l *link) write() {
	defer close(l.written)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.retired:
			l.finish()
			return
		case <-l.inFlight.wake:
		case <-timer.C:
		}
		runtime.Gosched() // let other handlers finish, too, so that one message carries much
		next, err := l.send()
		if err != nil {
			l.writeFail = err
			_ = l.session.Close() // so that the reader returns, too
			return
		}
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// endTimeout is how long a session may take to end once it is closed.
const endTimeout = 5 * time.Second

// send sends what there is to send, as much as fits into a message, and returns when to call it again.
func (l *link) send() (next time.Time, err error) {
	req, next := l.inFlight.outgoing(time.Now())
	if isEmpty(&req) {
		return next, nil
	}
	return next, l.session.Send(l.ctx, req)
}

// farewell is what a link sends before it ends.
type farewell struct {
	results bool // send what is left; otherwise another session does
	goodbye bool // the server is to give the worker's runs to others
}

// retire ends the writer; what the server has sent already is still read.
func (l *link) retire(last farewell) {
	l.once.Do(func() {
		l.farewell = last
		close(l.retired)
		time.AfterFunc(endTimeout, l.cancel)
	})
}

// finish sends the last messages. Nothing depends on their success: runs not given back end with their
// leases.
func (l *link) finish() {
	if l.farewell.results {
		_, _ = l.send()
	}
	if l.farewell.goodbye {
		_ = l.session.Send(l.ctx, carillon.WorkRequest{Goodbye: true})
	}
	_ = l.session.Close()
}
