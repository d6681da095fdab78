package engine

import (
	"cmp"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// Reports takes what consumers report about attempts. A token that is not of this store is stale. Each
// partition gets its reports as one piece of mail.
func (e *Engine) Reports(rs []delivery.Report) {
	in := make([]report, 0, len(rs))
	for i := range rs {
		tok, p := e.token(rs[i].Token)
		if p == nil {
			stale(rs[i].From, rs[i].Token)
			continue
		}
		in = append(in, report{tok: tok, Report: &rs[i]})
	}
	each(e, in, func(r *report) uint16 { return r.tok.Run.Partition },
		func(m *mail, same []report) { m.reports = append(m.reports, same...) })
}

// each groups what has come in by partition, and puts each group into that partition's mailbox.
func each[T any](e *Engine, in []T, partition func(*T) uint16, put func(m *mail, same []T)) {
	slices.SortStableFunc(in, func(a, b T) int { return cmp.Compare(partition(&a), partition(&b)) })
	for len(in) > 0 {
		p, n := partition(&in[0]), 1
		for n < len(in) && partition(&in[n]) == p {
			n++
		}
		same := in[:n]
		e.parts[p].box.put(func(m *mail) { put(m, same) })
		in = in[n:]
	}
}

// Heartbeats takes heartbeats. from gets the answers.
func (e *Engine) Heartbeats(bs []carillon.Heartbeat, from delivery.Reporter) {
	for _, b := range bs {
		tok, p := e.token(b.Token)
		if p == nil {
			stale(from, b.Token)
			continue
		}
		p.box.put(func(m *mail) { m.heartbeats = append(m.heartbeats, heartbeat{tok, from, b.Token, b.Confirm}) })
	}
}

// Lost takes attempts whose consumer has disconnected cleanly.
func (e *Engine) Lost(tokens []string) { e.losses(tokens, false) }

// Undelivered takes back attempts that were never sent, or whose consumer has gone with its stream: see
// [partition.Attempts.Undelivered].
func (e *Engine) Undelivered(tokens []string) { e.losses(tokens, true) }

func (e *Engine) losses(tokens []string, undelivered bool) {
	in := make([]loss, 0, len(tokens))
	for _, t := range tokens {
		if tok, p := e.token(t); p != nil {
			in = append(in, loss{tok: tok, undelivered: undelivered})
		}
	}
	each(e, in, func(l *loss) uint16 { return l.tok.Run.Partition },
		func(m *mail, same []loss) { m.losses = append(m.losses, same...) })
}

// Slots gives a partition slots of a queue, for which it has waited.
func (e *Engine) Slots(p delivery.Owner, q delivery.Queue, n int) {
	e.parts[p.Partition].box.put(func(m *mail) { m.slots = append(m.slots, sentSlots{p, q, n}) })
}

// Consumers has all partitions look for due runs, since a queue has got its first consumer.
func (e *Engine) Consumers(delivery.Queue) {
	for _, p := range e.parts {
		p.box.ring()
	}
}

// confirm answers a heartbeat that asked whether its attempt is in force.
func (b *heartbeat) confirm() {
	if c, ok := b.from.(delivery.Confirmer); ok && b.ask {
		c.Confirmed(b.text)
	}
}

func stale(to delivery.Reporter, token string) {
	if to != nil {
		to.Stale(token)
	}
}
