package engine

import (
	"context"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

// A partition may move to another node while requests and streams of its consumers are still connected here.
// What they report is relayed to the new owner:
//
//	consumer --> mailbox of the partition here --passOn--> goroutine: pass, say --RelayReports-----> owner
//	consumer <-- answer <------------------------ RelayResult, durable --------------- hearRelayed, hearFor
//
// At most one goroutine relays for a partition, a part of the mail at a time, in the order in which reports
// came in. It ends when the owner has answered, when this node owns the partition again, or when the engine
// stops. What is not answered goes back to the front of the mailbox and is relayed again after a pause, or
// heard by this node's next term. If the owner refuses a part for good, it is halved until only the offending
// report is dropped.
const (
	// reportsKept is how many reports, heartbeats and losses of a partition, each, are kept until an owner
	// hears them. Of heartbeats the newest are kept. Excess reports and losses are dropped and never
	// answered: their attempts end with their leases.
	reportsKept = 4096
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
	reports    []report
	heartbeats []heartbeat
	losses     []loss

	// The results among these reports, those still in the mailbox, and those that have come in since.
	results *beside
}

func (w *consumerReports) len() int { return len(w.reports) + len(w.heartbeats) + len(w.losses) }

// keep puts reports back in front of what has come in meanwhile.
func (m *mail) keep(w *consumerReports) {
	m.reports = append(w.reports, m.reports...)
	m.heartbeats = append(w.heartbeats, m.heartbeats...)
	m.losses = append(w.losses, m.losses...)
}

// limit drops excess mail. It returns how many reports and losses were dropped; heartbeats do not count.
func (m *mail) limit() (dropped int) {
	m.heartbeats = m.heartbeats[max(0, len(m.heartbeats)-reportsKept):]
	dropped = max(0, len(m.reports)-reportsKept) + max(0, len(m.losses)-reportsKept)
	m.reports = m.reports[:min(len(m.reports), reportsKept)]
	m.losses = m.losses[:min(len(m.losses), reportsKept)]
	return dropped
}

// first takes the next part to relay out of the mail.
func (m *mail) first() *consumerReports {
	w := &consumerReports{results: &beside{reports: slices.Clone(m.reports)}}
	bytes := 0
	for len(w.reports) < min(reportsAtOnce, len(m.reports)) && bytes < bytesAtOnce {
		r := m.reports[len(w.reports)]
		bytes += len(r.Response) + len(r.Message)
		w.reports = append(w.reports, r)
	}
	w.heartbeats = append(w.heartbeats, m.heartbeats[:min(reportsAtOnce, len(m.heartbeats))]...)
	w.losses = append(w.losses, m.losses[:min(reportsAtOnce, len(m.losses))]...)
	m.reports, m.heartbeats, m.losses = m.reports[len(w.reports):], m.heartbeats[len(w.heartbeats):], m.losses[len(w.losses):]
	return w
}

// passOn relays what consumers reported to the partition's owner, one part at a time, on a goroutine.
func (p *partitionRunner) passOn() {
	if p.passing != nil || p.e.cfg.Peers == nil {
		return
	}
	var w *consumerReports
	p.box.keep(func(m *mail) { w = m.first() })
	if w == nil || w.len() == 0 {
		return
	}
	ctx, cancel := context.WithCancel(p.e.life)
	p.passing = cancel
	pause := p.pause
	p.e.wg.Go(func() {
		defer cancel()
		left := p.pass(ctx, w, pause)
		p.box.put(func(m *mail) {
			m.keep(left)
			m.passed = append(m.passed, left.len() == 0)
		})
	})
}

// passMeanwhile relays while no round can run, because the partition is being claimed or a read for another
// one waits for the store. Other mail waits for the round.
func (p *partitionRunner) passMeanwhile() {
	if p.m != nil || !p.elsewhere() || !p.box.answer() {
		return
	}
	p.owed = true
	var outcomes []bool
	p.box.keep(func(m *mail) { outcomes, m.passed = m.passed, nil })
	p.passed(outcomes)
	if p.passing == nil {
		p.box.keep(func(m *mail) { p.settleOrphans(m) })
		p.passOn()
	}
}

// passed records how relaying a part has ended.
func (p *partitionRunner) passed(outcomes []bool) {
	for _, heard := range outcomes {
		p.passing = nil
		if heard {
			p.pause = 0
		} else {
			p.pause = min(max(firstPause, 2*p.pause), lastPause)
		}
	}
}

// pass relays a part after a pause. It returns the reports that must be relayed again.
func (p *partitionRunner) pass(ctx context.Context, w *consumerReports, pause time.Duration) (left *consumerReports) {
	if pause > 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return w
		}
	}
	return p.say(ctx, w)
}

// say relays a part now. If the owner refuses it for good, the part is halved and each half sent by itself,
// so that only what cannot be accepted is dropped.
func (p *partitionRunner) say(ctx context.Context, w *consumerReports) (left *consumerReports) {
	within, cancel := context.WithTimeout(ctx, relayWithin)
	heard, err := Send(within, p.e.cfg.Peers, p.number, w.said(p.e.macKey))
	cancel()
	switch {
	case err == nil:
		p.box.keep(func(m *mail) { w.results.add(m.reports) }) // they are in the next part
		w.answer(heard)
		return &consumerReports{}
	case !hopeless(err):
		p.e.log.Debug("what consumers said was not passed on", "partition", p.number, "error", err)
		return w
	case w.len() == 1:
		p.e.log.Warn("the owner of the partition refuses what a consumer said: it is dropped, and the attempt ends with its lease",
			"partition", p.number, "error", err)
		p.e.dropped(1)
		for i := range w.reports {
			stale(w.reports[i].From, w.reports[i].Token)
		}
		return &consumerReports{}
	}
	one, rest := w.halve()
	left = p.say(ctx, one)
	more := p.say(ctx, rest)
	return &consumerReports{append(left.reports, more.reports...), append(left.heartbeats, more.heartbeats...),
		append(left.losses, more.losses...), w.results}
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

// said returns the part in the form in which it is relayed.
func (w *consumerReports) said(macKey []byte) RelayReports {
	var s RelayReports
	for i := range w.reports {
		r := *w.reports[i].Report
		r.From = nil
		s.Reports = append(s.Reports, r)
	}
	for i := range w.heartbeats {
		s.Heartbeats = append(s.Heartbeats, carillon.Heartbeat{Token: w.heartbeats[i].text, RunID: w.heartbeats[i].tok.Run.String()})
	}
	signer := partition.NewSigner(macKey)
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
func (w *consumerReports) answer(h RelayResult) {
	accepted, refused := setOf(h.Accepted), setOf(h.Stale)
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
		case refused[r.Token] && !w.results.answer(r):
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

// hearRelayed takes what consumers of another node, which no longer owns the partition, reported; see
// [RelayReports].
func (e *Engine) hearRelayed(ctx context.Context, p *partitionRunner, s RelayReports) (RelayResult, error) {
	in, heard := e.parse(p.number, s)
	return askSeq(ctx, p, call{relayed: true}, func(p *partitionRunner, now int64) (RelayResult, uint64, error) {
		return p.hearFor(in, heard, now)
	})
}

// parse parses the tokens. Those of other partitions are stale.
func (e *Engine) parse(number int, s RelayReports) (in mail, heard RelayResult) {
	of := func(text string) (partition.Token, bool) {
		tok, p := e.token(text)
		if p == nil || p.number != number {
			heard.Stale = append(heard.Stale, text)
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
			in.losses = append(in.losses, loss{tok: tok, former: true})
		}
	}
	for _, text := range s.Undelivered {
		if tok, ok := of(text); ok {
			in.losses = append(in.losses, loss{tok: tok, undelivered: true, former: true})
		}
	}
	return in, heard
}

// hearFor is hear for reports relayed by another node, which is answered once batch seq is durable.
func (p *partitionRunner) hearFor(in mail, heard RelayResult, now int64) (h RelayResult, seq uint64, err error) {
	if err := p.fetchRuns(in, now); err != nil {
		return heard, 0, readError(err)
	}
	// This term has handed it out; the report is about the other node's delivery.
	in.losses = slices.DeleteFunc(in.losses, func(l loss) bool {
		return l.undelivered && p.m.HandedOut(l.tok)
	})
	seq = p.hearLosses(in.losses, now)
	results := beside{reports: in.reports}
	p.hearHeartbeats(in.heartbeats, now, &results, func(b *heartbeat) {
		heard.Stale = append(heard.Stale, b.text)
		seq = max(seq, p.m.Newest())
	})
	for i := range in.reports {
		r := &in.reports[i]
		verdict, err := p.judge(r, now)
		switch {
		case err != nil:
			return heard, 0, readError(err)
		case verdict == partition.Missing: // the consumer sends it again, and is then told what became of it
			p.postpone(mail{reports: []report{*r}})
		case verdict != partition.Accepted:
			if !results.answer(r) {
				heard.Stale = append(heard.Stale, r.Token)
				seq = max(seq, p.m.Newest())
			}
		default:
			heard.Accepted = append(heard.Accepted, r.Token)
			seq = max(seq, p.m.After())
		}
	}
	return heard, seq, nil
}
