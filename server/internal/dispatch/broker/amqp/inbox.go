package amqp

import (
	"sync"

	"github.com/rabbitmq/amqp091-go"
)

// inbox gathers the messages of a queue. The library hands them over one by one, so that whoever takes them
// from it never sees two at a time; Receive gets what has come meanwhile. The broker's prefetch bounds how
// many there are.
type inbox struct {
	came  chan struct{} // there are messages, or the library has none any more
	ended chan struct{} // closed when the library has none any more

	mu      sync.Mutex
	waiting []amqp091.Delivery
}

// gather gathers messages until the library closes their channel, as it does with its connection.
func gather(messages <-chan amqp091.Delivery) *inbox {
	b := &inbox{came: make(chan struct{}, 1), ended: make(chan struct{})}
	go func() {
		defer close(b.ended)
		for m := range messages {
			b.mu.Lock()
			b.waiting = append(b.waiting, m)
			b.mu.Unlock()
			b.ring()
		}
	}()
	return b
}

// len is how many have come and were not taken.
func (b *inbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

func (b *inbox) ring() {
	select {
	case b.came <- struct{}{}:
	default: // it rings already
	}
}

// take returns up to most messages that have come.
func (b *inbox) take(most int) []amqp091.Delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(most, len(b.waiting))
	some := b.waiting[:n:n]
	if b.waiting = b.waiting[n:]; len(b.waiting) == 0 {
		b.waiting = nil
	} else {
		b.ring()
	}
	return some
}
