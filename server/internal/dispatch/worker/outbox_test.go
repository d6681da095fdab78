package worker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch/stream"
)

func TestMessagesAreBounded(t *testing.T) {
	d := newFakeSink(Options{Bounds: stream.Bounds{MessageBytes: 1000, MessageItems: 3}})
	s := d.connect(t, 20)
	d.deliver(t, 0, 4, 0)    // four small: by items
	d.deliver(t, 4, 5, 5000) // larger than a message
	d.deliver(t, 5, 7, 600)  // two: by bytes
	for _, n := range []int{3, 1, 1, 1, 1} {
		if r := receive(t, s); len(r.Runs) != n {
			t.Fatalf("%d runs, not %d", len(r.Runs), n)
		}
	}
	for i := range 4 {
		d.hub.Cancel([]delivery.Cancel{{Queue: queue, Token: token(i)}})
	}
	d.deliver(t, 7, 8, 0)
	for _, want := range []carillon.WorkResponse{{Cancel: []string{token(0), token(1), token(2)}},
		{Cancel: []string{token(3)}}} {
		r := receive(t, s)
		if !slices.Equal(r.Cancel, want.Cancel) {
			t.Fatalf("%v", r)
		}
	}
}

// TestNothingButCancelled has only cancelled runs waiting: that is no message.
func TestNothingButCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeSink(Options{})
		s := d.connect(t, 1)
		d.deliver(t, 0, 1, 0)
		d.hub.Cancel([]delivery.Cancel{{Queue: queue, Token: token(0)}})
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if r, err := s.Receive(short); !errors.Is(err, carillon.DeadlineExceeded) {
			t.Fatal(r, err)
		}
		pass(2 * stream.DefaultStall)
		if len(d.hub.Workers()) != 1 {
			t.Fatal("dropped for leaving nothing unreceived")
		}
	})
}
