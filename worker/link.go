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
	cut      context.CancelFunc

	asked     chan struct{} // holds one when the server asks the worker to connect anew
	retired   chan struct{} // closed when another session takes over, or none
	once      sync.Once     // of retired
	last      words         // set before retired is closed
	written   chan struct{} // closed when the writer has ended
	writeFail error         // why, if it was not told to; after written
	err       error         // why the session is over
}

// newLink begins to read and write a session; ended gets the link when the session is over.
func newLink(s carillon.Session, d *inFlight, ended chan<- *link) *link {
	l := &link{session: s, inFlight: d, since: time.Now(), asked: make(chan struct{}, 1), retired: make(chan struct{}), written: make(chan struct{})}
	l.ctx, l.cut = context.WithCancel(context.Background())
	d.attach(l)
	go l.write()
	go func() {
		l.err = l.read()
		l.retire(words{})
		<-l.written
		if fatal(l.writeFail) {
			l.err = l.writeFail
		}
		l.cut()
		ended <- l
	}()
	return l
}

// read takes what the server says until the session is over.
func (l *link) read() error {
	for {
		msg, err := l.session.Receive(l.ctx)
		if err != nil {
			return err
		}
		l.inFlight.take(l, &msg)
		if msg.Drain {
			ring(l.asked)
		}
	}
}

// write says what there is to say until the link is retired, then closes the session.
func (l *link) write() {
	defer close(l.written)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.retired:
			l.finish()
			return
		case <-l.inFlight.bell:
		case <-timer.C:
		}
		runtime.Gosched() // let others finish too, so that much goes into one message
		next, err := l.say()
		if err != nil {
			l.writeFail = err
			_ = l.session.Close() // the reader learns that it is over
			return
		}
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// lingering is how long a session may take to end once it is closed.
const lingering = 5 * time.Second

// say says what there is to say, as much as fits into a message, and when to ask again.
func (l *link) say() (next time.Time, err error) {
	req, next := l.inFlight.outgoing(time.Now())
	if silent(&req) {
		return next, nil
	}
	return next, l.session.Send(l.ctx, req)
}

// words are what a link says before it ends.
type words struct {
	rest    bool // what there is still to say; otherwise another session says it
	goodbye bool // the server is to give what the worker has to others
}

// retire lets the writer end; what the server has sent already is still read.
func (l *link) retire(last words) {
	l.once.Do(func() {
		l.last = last
		close(l.retired)
		time.AfterFunc(lingering, l.cut)
	})
}

// finish says the last words. Nothing depends on their success: the leases end what was not given back.
func (l *link) finish() {
	if l.last.rest {
		_, _ = l.say()
	}
	if l.last.goodbye {
		_ = l.session.Send(l.ctx, carillon.WorkRequest{Goodbye: true})
	}
	_ = l.session.Close()
}
