package engine

import (
	"context"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/internal/message"
)

// answerWithin bounds requests between partitions that no caller waits for. A request that takes longer is
// not carried out.
const answerWithin = 10 * time.Second

// peerCallsAtOnce is how many notices to other nodes may be under way at once.
const peerCallsAtOnce = 64

// peerQueue sends notices to partitions of other nodes, in order and a few at once, since the lanes'
// goroutines must not wait for them.
type peerQueue struct {
	peers   message.Partitions
	life    context.Context // ends when the engine stops
	running *sync.WaitGroup

	mu      sync.Mutex
	queue   []queuedNotice
	workers int
}

// queuedNotice is a notice that waits to be sent.
type queuedNotice struct {
	to     int
	notice message.Notice
	check  bool
	back   func(message.Answer)
}

// send delivers a notice to a job in partition to, or with check asks whether the job waits. It does not
// wait; back is called with the answer.
func (q *peerQueue) send(to int, n message.Notice, check bool, back func(message.Answer)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, queuedNotice{to, n, check, back})
	if q.workers < peerCallsAtOnce {
		q.workers++
		q.running.Go(q.work)
	}
}

// work sends queued notices until none is left.
func (q *peerQueue) work() {
	for n, ok := q.next(); ok; n, ok = q.next() {
		n.back(q.deliver(&n))
	}
}

// next takes a notice out of the queue. ok is false if there is none, and the worker must end.
func (q *peerQueue) next() (n queuedNotice, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		q.workers--
		q.queue = nil
		return n, false
	}
	n = q.queue[0]
	q.queue = q.queue[1:]
	return n, true
}

func (q *peerQueue) deliver(n *queuedNotice) message.Answer {
	ctx, cancel := context.WithTimeout(q.life, answerWithin)
	defer cancel()
	if !n.check {
		answer, err := message.Send(ctx, q.peers, n.to, message.DeliverNotice{Notice: n.notice})
		if err != nil {
			return message.Unreached
		}
		return answer
	}
	switch waits, err := message.Send(ctx, q.peers, n.to, message.StillWaits{Dependency: n.notice.Dependency}); {
	case err != nil:
		return message.Unreached
	case !waits:
		return message.Nobody
	}
	return message.Taken
}
