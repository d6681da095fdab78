package engine

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
)

// A partition may move to another node while requests and streams of its consumers are still connected here.
// What they report is relayed to the new owner:
//
//	consumer --> mailbox of the partition here --relay.start--> goroutine: relay.send --RelayReports--> owner
//	consumer <-- answer <------------------ RelayResult, durable -------- RelayReports, intake.takeRelayed
//
// At most one goroutine relays for a partition, a part of the mail at a time, in the order in which reports
// came in. It ends when the owner has answered, when this node owns the partition again, or when the engine
// stops. What is not answered goes back to the front of the mailbox and is relayed again after a pause, or
// taken by this node's next term. If the owner refuses a part for good, it is halved until only the offending
// report is dropped.
const (
	// reportsKept is how many reports, heartbeats and losses of a partition, each, are kept until an owner
	// takes them. Of heartbeats the newest are kept. Excess reports and losses are dropped and never
	// answered: their attempts end with their leases.
	reportsKept = 4096
	// responsesKept bounds the results of runs in them, in bytes. Beyond it a report is kept without its result.
	responsesKept = 16 << 20
	// reportsAtOnce and bytesAtOnce bound one part.
	reportsAtOnce = 256
	bytesAtOnce   = 1 << 20
	// relayWithin is the timeout for one part.
	relayWithin = 5 * time.Second
	// A failed try to relay is followed by a pause, which doubles.
	firstPause, lastPause = 50 * time.Millisecond, 2 * time.Second
)

// consumerReports is a part of what consumers reported, as it is relayed.
type consumerReports struct {
	reported
	// The results among these reports, those still in the mailbox, and those that have come in since.
	results *resultSet
}

// limit drops excess mail. It returns how many reports and losses were dropped; heartbeats do not count. It
// also returns from how many reports it has dropped what the run would keep as its result.
func (m *mail) limit() (dropped, shortened int) {
	m.heartbeats = m.heartbeats[max(0, len(m.heartbeats)-reportsKept):]
	dropped = max(0, len(m.reports)-reportsKept) + max(0, len(m.losses)-reportsKept)
	m.reports = m.reports[:min(len(m.reports), reportsKept)]
	m.losses = m.losses[:min(len(m.losses), reportsKept)]
	bytes := 0
	for i := range m.reports {
		r := &m.reports[i]
		if bytes += len(r.Response); bytes > responsesKept && len(r.Response) > 0 {
			bytes -= len(r.Response)
			short := *r.Report // its consumer may still hold it
			short.Response, r.Report = nil, &short
			shortened++
		}
	}
	return dropped, shortened
}

// first takes the next part to relay out of the mail.
func (m *mail) first() *consumerReports {
	w := &consumerReports{results: &resultSet{reports: slices.Clone(m.reports)}}
	bytes := 0
	for len(w.reports) < min(reportsAtOnce, len(m.reports)) && bytes < bytesAtOnce {
		r := m.reports[len(w.reports)]
		bytes += len(r.Response) + len(r.Message)
		w.reports = append(w.reports, r)
	}
	w.heartbeats = append(w.heartbeats, m.heartbeats[:min(reportsAtOnce, len(m.heartbeats))]...)
	w.losses = append(w.losses, m.losses[:min(reportsAtOnce, len(m.losses))]...)
	m.reports = m.reports[len(w.reports):]
	m.heartbeats = m.heartbeats[len(w.heartbeats):]
	m.losses = m.losses[len(w.losses):]
	return w
}

// relay passes on what consumers of this node report about a partition of another node. The lane's goroutine
// uses it; send and what it calls run on the goroutine of the part.
type relay struct {
	number  int // of the partition
	box     *mailbox
	peers   message.Partitions // nil: there are no other nodes
	macKey  []byte
	log     *slog.Logger
	dropped func(n int)
	life    context.Context // ends with the engine
	wg      *sync.WaitGroup

	cancel context.CancelFunc // ends the part under way; nil if there is none
	pause  time.Duration      // before the next part
}

// busy reports whether a part is under way.
func (r *relay) busy() bool { return r.cancel != nil }

// start relays the next part of the mailbox, if there is one and none is under way.
func (r *relay) start() {
	if r.busy() || r.peers == nil {
		return
	}
	var w *consumerReports
	r.box.keep(func(m *mail) { w = m.first() })
	if w == nil || w.len() == 0 {
		return
	}
	ctx, cancel := context.WithCancel(r.life)
	r.cancel = cancel
	pause := r.pause
	r.wg.Go(func() {
		defer cancel()
		left := r.sendAfter(ctx, w, pause)
		whole := left.len() == 0
		for i := range left.losses { // a term may have begun here meanwhile
			left.losses[i].former, left.losses[i].others = true, true
		}
		r.box.put(func(m *mail) {
			left.add(&m.reported) // in front of what has come in meanwhile
			m.reported = *left
			m.relayed = append(m.relayed, whole)
		})
	})
}

// stop cancels the part under way: this node takes from now on what the owner elsewhere has not taken.
func (r *relay) stop() {
	if r.busy() {
		r.cancel()
	}
}

// ended records how relaying parts has ended: whether the owner has answered for the whole part.
func (r *relay) ended(outcomes []bool) {
	for _, whole := range outcomes {
		r.cancel = nil
		if whole {
			r.pause = 0
		} else {
			r.pause = min(max(firstPause, 2*r.pause), lastPause)
		}
	}
}

// sendAfter sends a part after a pause. It returns the reports that must be relayed again.
func (r *relay) sendAfter(ctx context.Context, w *consumerReports,
	pause time.Duration) (left *reported) {
	if pause > 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return &w.reported
		}
	}
	return r.send(ctx, w)
}

// send sends a part now. If the owner refuses it for good, the part is halved and each half sent by itself,
// so that only what cannot be accepted is dropped.
func (r *relay) send(ctx context.Context, w *consumerReports) (left *reported) {
	within, cancel := context.WithTimeout(ctx, relayWithin)
	result, err := message.Send(within, r.peers, r.number, w.message(r.macKey))
	cancel()
	switch {
	case err == nil:
		r.box.keep(func(m *mail) { w.results.add(m.reports) }) // they are in the next part
		w.answer(result)
		return &reported{}
	case !hopeless(err):
		r.log.Debug("what consumers reported was not relayed", "partition", r.number, "error", err)
		return &w.reported
	case w.len() == 1:
		r.log.Warn("the owner of the partition refuses what a consumer reported: it is dropped, and the attempt ends with its lease",
			"partition", r.number, "error", err)
		r.dropped(1)
		for i := range w.reports {
			stale(w.reports[i].From, w.reports[i].Token)
		}
		return &reported{}
	}
	one, rest := w.halve()
	left = r.send(ctx, one)
	left.add(r.send(ctx, rest))
	return left
}

// relayMeanwhile relays while no round can run, because the partition is being claimed or a read for another
// one waits for the store. Other mail waits for the round.
func (p *partitionRunner) relayMeanwhile() {
	if p.own.holds() || !p.own.elsewhere() || !p.box.answer() {
		return
	}
	p.timers.owed = true
	var outcomes []bool
	p.box.keep(func(m *mail) { outcomes, m.relayed = m.relayed, nil })
	p.relay.ended(outcomes)
	if !p.relay.busy() {
		var stale []delivery.Cancel
		p.box.keep(func(m *mail) { stale = p.orphans.settle(m) })
		if len(stale) > 0 {
			p.e.dispatcher.Cancel(stale)
		}
		p.relay.start()
	}
}

// hopeless reports whether a refusal is final: the reports are not valid or do not fit into a message.
func hopeless(err error) bool {
	switch carillon.KindOf(err) {
	case carillon.ResourceExhausted: // the request or the answer is too large, and would be again
		return true
	case carillon.InvalidArgument:
		return !unknown(err)
	}
	return false
}

// halve splits a part of more than one report.
func (w *consumerReports) halve() (one, rest *consumerReports) {
	n := w.len() / 2
	one, rest = &consumerReports{results: w.results}, &consumerReports{results: w.results}
	one.reports, rest.reports = cut(w.reports, &n)
	one.heartbeats, rest.heartbeats = cut(w.heartbeats, &n)
	one.losses, rest.losses = cut(w.losses, &n)
	return one, rest
}

// cut splits s after up to n items, and reduces n by as many.
func cut[T any](s []T, n *int) (one, rest []T) {
	k := min(*n, len(s))
	*n -= k
	return s[:k:k], s[k:]
}

// dropped counts dropped reports.
func (e *Engine) dropped(n int) {
	if told := e.cfg.Events.Dropped; told != nil {
		told(n)
	}
}

// message returns the part in the form in which it is relayed.
func (w *consumerReports) message(macKey []byte) message.RelayReports {
	var s message.RelayReports
	for i := range w.reports {
		r := *w.reports[i].Report
		r.From = nil
		s.Reports = append(s.Reports, r)
	}
	for i := range w.heartbeats {
		s.Heartbeats = append(s.Heartbeats,
			carillon.Heartbeat{Token: w.heartbeats[i].text, RunID: w.heartbeats[i].tok.Run.String()})
	}
	signer := message.NewSigner(macKey)
	for i := range w.losses {
		l := &w.losses[i]
		if token := signer.Sign(l.tok); l.undelivered {
			s.Undelivered = append(s.Undelivered, token)
		} else {
			s.Lost = append(s.Lost, token)
		}
	}
	return s
}

// answer passes the owner's answers on to the consumers.
func (w *consumerReports) answer(result message.RelayResult) {
	accepted, refused := setOf(result.Accepted), setOf(result.Stale)
	for i := range w.heartbeats {
		switch b := &w.heartbeats[i]; {
		case !refused[b.text]:
			b.confirm()
		case !w.results.have(b.text):
			stale(b.from, b.text)
		}
	}
	for i := range w.reports {
		r := &w.reports[i]
		switch {
		case refused[r.Token] && !w.results.answers(r):
			stale(r.From, r.Token)
		case accepted[r.Token] && r.From != nil && r.Outcome != carillon.OutcomeProgress:
			r.From.Accepted(r.Token)
		}
	}
}

func setOf(tokens []string) map[string]bool {
	set := make(map[string]bool, len(tokens))
	for _, t := range tokens {
		set[t] = true
	}
	return set
}

func serveRelayReports(ctx context.Context, p *partitionRunner, m message.RelayReports) (any, error) {
	in, result := p.e.parse(p.number, m)
	return inRoundSeq(ctx, p, call{relayed: true},
		func(p *partitionRunner, now int64) (message.RelayResult, uint64, error) {
			return p.intake.takeRelayed(&in, result, now)
		})
}

// parse parses the tokens. Those of other partitions are stale.
func (ps *partitions) parse(number int, s message.RelayReports) (in reported,
	result message.RelayResult) {
	of := func(text string) (message.Token, bool) {
		tok, p := ps.token(text)
		if p == nil || p.number != number {
			result.Stale = append(result.Stale, text)
			return tok, false
		}
		return tok, true
	}
	for i := range s.Reports {
		r := s.Reports[i]
		r.From = nil
		if tok, ok := of(r.Token); ok {
			in.reports = append(in.reports, report{tok: tok, Report: &r})
		}
	}
	for _, b := range s.Heartbeats {
		if tok, ok := of(b.Token); ok {
			in.heartbeats = append(in.heartbeats, heartbeat{tok: tok, text: b.Token})
		}
	}
	for _, text := range s.Lost {
		if tok, ok := of(text); ok {
			in.losses = append(in.losses, loss{tok: tok, former: true, others: true})
		}
	}
	for _, text := range s.Undelivered {
		if tok, ok := of(text); ok {
			in.losses = append(in.losses, loss{tok: tok, undelivered: true, former: true, others: true})
		}
	}
	return in, result
}
