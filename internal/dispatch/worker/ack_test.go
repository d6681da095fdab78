package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

// TestAcksWaitForCompany: acks alone go out together after a while; a run takes them along at once.
func TestAcksWaitForCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = time.Millisecond
		d := newDesk(Options{AckWait: wait})
		s := d.connect(t, 10)
		worker := s.(*Session)
		start := time.Now()
		worker.Accepted("a")
		pass(wait / 2)
		worker.Accepted("b")
		if got := receive(t, s); len(got.Acks) != 2 || time.Since(start) != wait {
			t.Errorf("got %+v after %v", got, time.Since(start))
		}
		start = time.Now()
		worker.Accepted("c")
		d.deliver(t, 0, 1, 0)
		if got := receive(t, s); len(got.Acks) != 1 || len(got.Runs) != 1 || time.Since(start) != 0 {
			t.Errorf("got %+v after %v", got, time.Since(start))
		}
		start = time.Now()
		worker.Accepted("d")
		if got := receive(t, s); len(got.Acks) != 1 || time.Since(start) != wait {
			t.Errorf("got %+v after %v", got, time.Since(start))
		}
		worker.Accepted("e")
		send(t, s, carillon.WorkRequest{Goodbye: true})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if got := receive(t, s); len(got.Acks) != 1 {
			t.Errorf("after the end: %+v", got)
		}
	})
}
