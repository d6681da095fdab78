package amqp

import (
	"errors"
	"slices"
	"time"
)

const (
	// maxLinks is how many connections a client has at most.
	maxLinks = 64
	// growAfter is how long a target may wait for a channel of the connections that there are. A channel that
	// answers is free much sooner, so most clients have one connection.
	growAfter = time.Second
	// spareAfter is how often it is looked whether a connection beside the first one was used since.
	spareAfter = time.Minute
)

// errSpare is why a connection ends that nobody needs any more.
var errSpare = errors.New("the connection is not needed any more")

// linkFor returns the connection for messages to a target: the one that has some of them already, or else one
// that has room, or else the first one, where they wait. c.mu is held.
func (c *Client) linkFor(to target) *link {
	if i := slices.IndexFunc(c.links, func(l *link) bool { return l.has(to) }); i >= 0 {
		return c.links[i]
	}
	if i := slices.IndexFunc(c.links, (*link).hasRoom); i >= 0 {
		return c.links[i]
	}
	if len(c.links) == 0 {
		return c.connectMore()
	}
	return c.links[0]
}

// connectMore begins one more connection. c.mu is held.
func (c *Client) connectMore() *link {
	l := newLink(c)
	c.links = append(c.links, l)
	c.running.Go(l.run)
	return l
}

// drop forgets a connection. c.mu is held.
func (c *Client) drop(l *link) {
	if i := slices.Index(c.links, l); i >= 0 {
		c.links = slices.Delete(c.links, i, i+1)
	}
}

// dropSpare forgets a connection that nobody has used since it was called last; false: it is needed.
func (c *Client) dropSpare(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	unused := l.uses == l.seen && len(l.turns) == 0 && len(c.links) > 1 && c.links[0] != l
	l.seen = l.uses
	for _, ch := range l.channels {
		unused = unused && ch.idle
	}
	if unused {
		c.drop(l)
	}
	return unused
}

// growLater has grow called. c.mu is held.
func (c *Client) growLater() {
	if c.grower == nil {
		c.grower = time.AfterFunc(growAfter, c.grow)
	}
}

// grow makes connections for targets that have waited for a channel: those that have one wait for answers,
// perhaps all of one slow queue.
func (c *Client) grow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grower = nil
	if c.closed {
		return
	}
	for _, l := range slices.Clone(c.links) {
		if l.room > 0 && len(l.turns) > 0 && time.Since(l.turns[0].since) >= growAfter {
			c.relieve(l)
		}
	}
	if slices.ContainsFunc(c.links, func(l *link) bool { return len(l.turns) > 0 }) {
		c.growLater()
	}
}

// relieve has the targets that wait for a channel of a connection wait for others, which are made. c.mu is
// held.
func (c *Client) relieve(l *link) {
	for len(l.turns) > 0 && len(c.links) < maxLinks {
		n := min(len(l.turns), maxChannels)
		more := c.connectMore()
		more.turns = slices.Clone(l.turns[:n])
		for _, t := range more.turns {
			more.waiting[t.to] = l.waiting[t.to]
			delete(l.waiting, t.to)
		}
		l.turns = l.turns[n:]
	}
}

// takeBack has the targets that wait for a connection that could not be made wait for one that there is, if
// there is one: the broker takes messages, but no more connections. c.mu is held.
func (c *Client) takeBack(l *link) {
	i := slices.IndexFunc(c.links, func(o *link) bool { return o.room > 0 })
	if c.closed || i < 0 || len(l.turns) == 0 {
		return
	}
	to := c.links[i]
	for _, t := range l.turns {
		to.turns = append(to.turns, turn{t.to, time.Now()})
		to.waiting[t.to] = l.waiting[t.to]
	}
	l.turns, l.waiting = nil, map[target][]entry{}
	to.admit()
	c.growLater()
}

// has reports whether messages to a target are, or wait, here. c.mu is held.
func (l *link) has(to target) bool { return l.channels[to] != nil || len(l.waiting[to]) > 0 }

// hasRoom reports whether a target would get a channel, at once or when the connection is made. c.mu is held.
func (l *link) hasRoom() bool {
	if l.room == 0 {
		return len(l.turns) < maxChannels
	}
	if len(l.channels) < l.room {
		return true
	}
	for _, ch := range l.channels {
		if ch.idle {
			return true
		}
	}
	return false
}
