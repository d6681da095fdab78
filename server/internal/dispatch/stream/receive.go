package stream

import (
	"context"
	"errors"
	"time"

	"github.com/carillonhq/carillon"
)

// Budget is how much still fits into a message.
type Budget struct{ Bytes, Items int }

// Announce wakes a call of [Receive], or starts the stall timer if none is under way.
func (s *Stream) Announce() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
	if s.receiving == 0 {
		s.watch()
	}
}

// Pause hands back what was not received and holds the credits back until Resume. Attempts that were kept
// here would be sent then even if they had ended: an owner to which their partition has moved does not know
// that they wait on this node. Deliveries on their way must be given back. The lock is held.
func (s *Stream) Pause() {
	s.paused = true
	s.GiveBackWaiting()
}

// Paused reports whether Pause is in force. The lock is held.
func (s *Stream) Paused() bool { return s.paused }

// Resume ends Pause. The lock is held.
func (s *Stream) Resume() { s.paused = false }

// watch starts the stall timer.
func (s *Stream) watch() {
	if s.idle.IsZero() && s.state != ended {
		s.idle = time.Now()
		s.stall.Reset(s.options.Bounds.Stall)
	}
}

// stalled ends a stream that is not received.
func (s *Stream) stalled() {
	s.Lock()
	late := !s.idle.IsZero() && time.Since(s.idle) >= s.options.Bounds.Stall
	s.Unlock()
	if late {
		s.End(carillon.Errorf(carillon.ResourceExhausted, "", "the %s received nothing for %v and was dropped",
			s.options.Consumer, s.options.Bounds.Stall))
	}
}

// Receive returns the next message as soon as there is one. If the stream has ended and no message is left,
// it returns why. If ctx ends, only the call ends. next builds a message within a budget, with the lock held,
// and reports whether it is one.
func Receive[M any](ctx context.Context, s *Stream, next func(*Budget) (M, bool)) (m M, err error) {
	s.enter()
	defer s.exit()
	for {
		m, ok, err := take(s, next)
		if ok || err != nil {
			return m, err
		}
		select {
		case <-s.wake:
		case <-s.over:
		case <-ctx.Done():
			return m, ContextError(ctx.Err())
		}
	}
}

// enter begins a call of Receive.
func (s *Stream) enter() {
	s.Lock()
	defer s.Unlock()
	s.receiving++
	s.idle = time.Time{}
	s.stall.Stop()
}

// exit ends a call of Receive. If it was the only one, the stall timer runs for what is left.
func (s *Stream) exit() {
	s.Lock()
	defer s.Unlock()
	s.receiving--
	if s.receiving == 0 && (!s.empty() || (s.options.Heartbeat && s.received > 0)) {
		s.watch()
	}
}

// empty reports whether nothing waits to be received.
func (s *Stream) empty() bool {
	return s.waiting.len() == 0 && (s.options.Others == nil || s.options.Others.Empty())
}

// take returns the next message, if there is one. The stream's error comes after all messages.
func take[M any](s *Stream, next func(*Budget) (M, bool)) (m M, ok bool, err error) {
	s.Lock()
	defer s.Unlock()
	s.left = Budget{s.options.Bounds.MessageBytes, s.options.Bounds.MessageItems}
	m, ok = next(&s.left)
	if !s.empty() {
		s.Announce()
	}
	if !ok {
		err = s.err
	}
	return m, ok, err
}

// Take passes the attempts that have waited longest to item and returns what it makes of them: at least one
// attempt, however large, and as many more as fit. One whose lease has ended is handed back: the process was
// halted, and the run was or will be given to another consumer.
func Take[T any](s *Stream, left *Budget, item func(*Attempt) T) (items []T) {
	var now time.Time
	if !s.options.Heartbeat {
		now = s.now()
	}
	for a := s.waiting.first(); a != nil; a = s.waiting.first() {
		if !s.options.Heartbeat && a.late(now) {
			s.GiveBack(a)
			continue
		}
		if left.Items == 0 || (left.Bytes < a.size && len(items) > 0) {
			break
		}
		if items == nil {
			items = make([]T, 0, min(left.Items, s.waiting.len()))
		}
		left.Items--
		left.Bytes -= a.size
		s.waiting.pop()
		s.received++
		a.Number, a.Known = s.received, true
		items = append(items, item(a))
		a.Run, a.Detail = nil, nil // the payload must not live as long as the attempt
	}
	return items
}

// ContextError returns the error of a call whose context has ended.
func ContextError(err error) error {
	kind := carillon.Canceled
	if errors.Is(err, context.DeadlineExceeded) {
		kind = carillon.DeadlineExceeded
	}
	return carillon.Errorf(kind, "", "%w", err)
}
