package amqp

import (
	"errors"
	"slices"

	"github.com/rabbitmq/amqp091-go"
)

var errNack = errors.New("the broker has not taken it (nack): a queue is full, or could not store it")

// ready reports whether the next message may be sent now.
func (c *channel) ready() bool {
	if len(c.todo) == 0 || len(c.await)+c.abandons >= window || c.ch.IsClosed() {
		return false
	}
	return len(c.await) == 0 || !c.single && !c.alone(c.todo[0])
}

// alone reports whether a message is to be sent when nothing is unanswered, and nothing after it before its
// answer: if the broker closes the channel, that is the message it means.
func (c *channel) alone(p entry) bool {
	return !c.proven || len(p.b.ms[p.i].Data) > max(c.largest, c.caution)
}

// send sends what may be sent, as one write if it is small.
func (c *channel) send() {
	if !c.ready() {
		return
	}
	c.link.wire.cork()
	defer c.link.wire.uncork()
	for c.ready() && c.link.blocked.Load() == nil {
		p := c.todo[0]
		c.todo = c.todo[1:]
		c.publish(p)
	}
}

func (c *channel) publish(p entry) {
	alone := c.alone(p)
	m := &p.b.ms[p.i]
	out := publishing(m)
	if n, most := headBytes(&out), c.link.conn.Config.FrameSize; most > 0 && n > most {
		p.b.settle(p.i, refused("the headers have %d bytes; the broker takes at most %d (frame_max)", n, most))
		return
	}
	if !p.b.begin(p.i) {
		return // ctx has ended
	}
	// Mandatory: what no queue gets is returned.
	answer, err := c.ch.PublishWithDeferredConfirm(c.to.exchange, c.to.key, true, false, out)
	if err != nil {
		p.b.fail(p.i, err)
		return
	}
	c.await = append(c.await, sent{entry: p, id: m.ID, headers: out.Headers, size: len(m.Data), answer: answer})
	c.single = alone
}

// settle hears the answers that have come, in the order in which was sent.
func (c *channel) settle() {
	for len(c.await) > 0 {
		s := &c.await[0]
		select {
		case <-s.answer.Done():
			if !s.answer.Acked() && c.ch.IsClosed() {
				return // no nack, but the end of the channel: see lost
			}
			c.takeReturns()
			c.report(s)
			c.proven, c.largest = true, max(c.largest, s.size)
		default:
			if !s.b.isSettled(s.i) {
				return
			}
			c.abandons++
		}
		c.await = c.await[1:]
	}
}

// report settles a message that was answered.
func (c *channel) report(s *sent) {
	switch r := s.returned; {
	case r != nil && c.to.exchange == "":
		s.b.settle(s.i, refused("there is no %s (%d %s)", c.to, r.ReplyCode, r.ReplyText))
	case r != nil:
		s.b.settle(s.i, refused("no queue is bound to %s (%d %s)", c.to, r.ReplyCode, r.ReplyText))
	case !s.answer.Acked():
		s.b.fail(s.i, errNack)
	default:
		s.b.settle(s.i, nil)
	}
}

// takeReturns notes which messages were given back. All that were are here before their answers.
func (c *channel) takeReturns() {
	for {
		select {
		case r, open := <-c.returns:
			if !open {
				c.returns = nil // closed: there are no more
				return
			}
			if i := c.returned(&r); i >= 0 {
				c.await[i].returned = &r
			} // else ctx has ended meanwhile
		default:
			return
		}
	}
}

// returned finds the message that was given back, the first if several are alike; -1: none is unanswered.
func (c *channel) returned(r *amqp091.Return) int {
	i := slices.IndexFunc(c.await, func(s sent) bool { return s.returned == nil && isReturnOf(r, &s) })
	if i < 0 && c.abandons == 0 {
		// The broker has changed its headers. It must not pass for acknowledged.
		i = slices.IndexFunc(c.await, func(s sent) bool { return s.returned == nil && s.id == r.MessageId })
	}
	return i
}

// stale reports whether the channel is to be replaced: so many are unanswered that there is little room, or
// the first is.
func (c *channel) stale() bool {
	return c.abandons > 0 && len(c.await) == 0 && (!c.proven || c.abandons >= window/2)
}

// lost settles what was sent when the channel has ended, and why is known: nil is the connection's end.
func (c *channel) lost(reason *amqp091.Error) {
	c.takeReturns()
	var open []sent
	for i := range c.await {
		if s := &c.await[i]; s.answer.Acked() {
			c.report(s)
		} else {
			open = append(open, *s)
		}
	}
	c.await = nil
	if reason == nil || c.link.conn.IsClosed() {
		<-c.link.down
		failSent(open, c.link.why)
		return
	}
	if !isRefusal(reason) {
		failSent(open, reason)
		return
	}
	if len(open) != 1 || c.abandons > 0 {
		c.caution = 0
		failSent(open, reason)
		return
	}
	err := refused("%s: the broker says %s (%d)", c.to, reason.Reason, reason.Code)
	open[0].b.settle(open[0].i, err)
	if reason.Code == amqp091.NotFound || reason.Code == amqp091.AccessRefused {
		c.refuseWaiting(err) // the same is true of them
	}
}

// failSent settles messages that the broker may have.
func failSent(all []sent, why error) {
	for i := range all {
		all[i].b.fail(all[i].i, why)
	}
}

func (c *channel) refuseWaiting(err error) {
	c.take()
	for _, p := range c.todo {
		p.b.settle(p.i, err)
	}
	c.todo = nil
}

// isRefusal reports whether the broker closes a channel because of a message that it will not take.
func isRefusal(e *amqp091.Error) bool {
	switch e.Code {
	case amqp091.NotFound, amqp091.AccessRefused, amqp091.PreconditionFailed, amqp091.ContentTooLarge:
		return true
	}
	return false
}
