package stream

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

func TestReceiveWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, 1, Options{})
		got := make(chan []string, 1)
		receive := func() {
			tokens, _ := Receive(ctx, c.Stream, c.next)
			got <- tokens
		}
		go receive()
		pass(10 * DefaultStall)
		c.deliver(t, 0, 1, 0)
		if tokens := <-got; !slices.Equal(tokens, []string{token(0)}) {
			t.Error(tokens)
		}
		go receive()
		synctest.Wait()
		_ = c.Close()
		if tokens := <-got; tokens != nil {
			t.Error(tokens)
		}
	})
}

func TestReceiveEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, 1, Options{})
		defer c.Close()
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := Receive(short, c.Stream, c.next); !errors.Is(err, carillon.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := Receive(gone, c.Stream, c.next); !errors.Is(err, carillon.Canceled) {
			t.Error(err)
		}
	})
}

func TestMessagesAreBounded(t *testing.T) {
	c := connect(t, 20, Options{Bounds: Bounds{MessageBytes: 2000, MessageItems: 3}})
	defer c.Close()
	c.deliver(t, 0, 4, 0)    // by items
	c.deliver(t, 4, 5, 5000) // larger than a message
	c.deliver(t, 5, 7, 1500) // by bytes
	at := 0
	for _, n := range []int{3, 1, 1, 1, 1} {
		if got := c.receive(t); !slices.Equal(got, tokens(at, at+n)) {
			t.Errorf("%v, not %d", got, n)
		}
		at += n
	}
}

func TestStall(t *testing.T) {
	for name, c := range map[string]struct {
		heartbeat, waits, received, dropped bool
	}{
		"nothing came":                  {},
		"something waits":               {waits: true, dropped: true},
		"all was received":              {received: true},
		"all was received, a heartbeat": {received: true, heartbeat: true, dropped: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := connect(t, 2, Options{Heartbeat: c.heartbeat})
				defer s.Close()
				if c.received {
					s.deliver(t, 0, 1, 0)
					s.receive(t)
				}
				if c.waits {
					s.deliver(t, 1, 2, 0)
				}
				pass(DefaultStall - 1)
				synctest.Wait()
				if len(s.hub.Workers()) != 1 {
					t.Fatal("dropped too early")
				}
				pass(1)
				synctest.Wait()
				if dropped := len(s.hub.Workers()) == 0; dropped != c.dropped {
					t.Errorf("dropped: %v", dropped)
				}
			})
		})
	}
}

func TestLateRunsAreHandedBack(t *testing.T) {
	for name, heartbeat := range map[string]bool{"leases": false, "heartbeat": true} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, 3, Options{Heartbeat: heartbeat})
			defer c.Close()
			offer(c.hub, 0, queue, 3, delivery.Head{})
			var ds []delivery.Delivery
			for i, lease := range []time.Duration{time.Second, time.Minute, time.Second} {
				run := &carillon.Run{Token: token(i), Started: c.now, Lease: lease}
				ds = append(ds, delivery.Delivery{Queue: queue, Run: run})
			}
			c.hub.Deliver(0, ds, nil)
			c.now = c.now.Add(2 * time.Second)
			got := c.receive(t)
			if heartbeat {
				if !slices.Equal(got, tokens(0, 3)) {
					t.Errorf("received %v", got)
				}
				return
			}
			if !slices.Equal(got, []string{token(1)}) {
				t.Errorf("received %v", got)
			}
			c.handedBack(t, []string{token(0), token(2)})
			c.slots(t, 1, 2)
		})
	}
}

// TestOthersComeBeforeTheEnd of the stream: what a session has to say beside runs is still received.
func TestOthersComeBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := &others{2}
		c := connect(t, 1, Options{Others: said, Bounds: Bounds{PendingBytes: 100}})
		c.Lock()
		c.Announce()
		c.Unlock()
		c.slots(t, 0, 0) // they count
		pass(DefaultStall)
		synctest.Wait()
		next := func(*Budget) (int, bool) {
			if said.Empty() {
				return 0, false
			}
			said.left--
			return said.left, true
		}
		for want := range 2 {
			if got, err := Receive(ctx, c.Stream, next); err != nil || got != 1-want {
				t.Error(got, err)
			}
		}
		if _, err := Receive(ctx, c.Stream, next); !errors.Is(err, carillon.ResourceExhausted) {
			t.Error(err)
		}
	})
}

type others struct{ left int }

func (o *others) Empty() bool { return o.left == 0 }
func (o *others) Bytes() int  { return 100 * o.left }
