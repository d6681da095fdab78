package engine

import (
	"context"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

// What consumers say of attempts of a partition that has gone to another node, while their requests and streams are still
// here, is passed on to its owner.
const (
	// wordsKept is how many reports, beats and losses of a partition, each, are kept until somebody hears them. Of beats the
	// newest stay. Of the others what is too much is dropped and never answered: those attempts end with their leases.
	wordsKept = 4096
	// wordsAtOnce and bytesAtOnce bound what is passed on at a time.
	wordsAtOnce = 256
	bytesAtOnce = 1 << 20
	// hearWithin is how long passing on may take at a time.
	hearWithin = 5 * time.Second
	// A failed attempt to pass on is followed by a pause, which grows.
	firstPause, lastPause = 50 * time.Millisecond, 2 * time.Second
)

// words is what consumers said.
type words struct {
	reports []report
	beats   []beat
	losses  []loss

	results *beside // among them, in what is left of the mail that they were taken from, and in what has come in since
}

func (w *words) len() int { return len(w.reports) + len(w.beats) + len(w.losses) }

// keep puts words back, in front of what has come in meanwhile.
func (m *mail) keep(w *words) {
	m.reports = append(w.reports, m.reports...)
	m.beats = append(w.beats, m.beats...)
	m.losses = append(w.losses, m.losses...)
}

// limit drops what is too much, and says how many words that were not beats.
func (m *mail) limit() (dropped int) {
	m.beats = m.beats[max(0, len(m.beats)-wordsKept):]
	dropped = max(0, len(m.reports)-wordsKept) + max(0, len(m.losses)-wordsKept)
	m.reports = m.reports[:min(len(m.reports), wordsKept)]
	m.losses = m.losses[:min(len(m.losses), wordsKept)]
	return dropped
}

// first takes the first words out, as many as are passed on at a time.
func (m *mail) first() *words {
	w := &words{results: &beside{reports: slices.Clone(m.reports)}}
	bytes := 0
	for len(w.reports) < min(wordsAtOnce, len(m.reports)) && bytes < bytesAtOnce {
		r := m.reports[len(w.reports)]
		bytes += len(r.Response) + len(r.Message)
		w.reports = append(w.reports, r)
	}
	w.beats = append(w.beats, m.beats[:min(wordsAtOnce, len(m.beats))]...)
	w.losses = append(w.losses, m.losses[:min(wordsAtOnce, len(m.losses))]...)
	m.reports, m.beats, m.losses = m.reports[len(w.reports):], m.beats[len(w.beats):], m.losses[len(w.losses):]
	return w
}

// passOn has the owner of the partition hear what consumers have said, a part at a time, on a goroutine that lives until that
// is heard, this node owns the partition again, or the engine stops.
func (p *owned) passOn() {
	if p.passing != nil || p.e.cfg.Peers == nil {
		return
	}
	var w *words
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

// passMeanwhile passes on what consumers have said while there can be no round, as the claim of the partition, or a read of another
// one, waits for the store. What else has come in waits for the round.
func (p *owned) passMeanwhile() {
	if p.m != nil || !p.elsewhere() || !p.box.answer() {
		return
	}
	p.owed = true
	var outcomes []bool
	p.box.keep(func(m *mail) { outcomes, m.passed = m.passed, nil })
	p.passed(outcomes)
	if p.passing == nil {
		p.box.keep(func(m *mail) { p.settleBehind(m) })
		p.passOn()
	}
}

// passed takes note of how passing on has ended.
func (p *owned) passed(outcomes []bool) {
	for _, heard := range outcomes {
		p.passing = nil
		if heard {
			p.pause = 0
		} else {
			p.pause = min(max(firstPause, 2*p.pause), lastPause)
		}
	}
}

// pass asks the owner, after a pause, to hear the words; it returns those that are to be said again.
func (p *owned) pass(ctx context.Context, w *words, pause time.Duration) (left *words) {
	if pause > 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return w
		}
	}
	return p.say(ctx, w)
}

// say is pass at once. What is refused for good is said word by word, so that only what cannot be heard is dropped.
func (p *owned) say(ctx context.Context, w *words) (left *words) {
	within, cancel := context.WithTimeout(ctx, hearWithin)
	heard, err := p.e.cfg.Peers.Hear(within, p.number, w.said(p.e.macKey))
	cancel()
	switch {
	case err == nil:
		p.box.keep(func(m *mail) { w.results.add(m.reports) }) // they are passed on next
		w.answer(heard)
		return &words{}
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
		return &words{}
	}
	one, rest := w.halve()
	left = p.say(ctx, one)
	more := p.say(ctx, rest)
	return &words{append(left.reports, more.reports...), append(left.beats, more.beats...), append(left.losses, more.losses...), w.results}
}

// hopeless reports whether what was refused so will be refused for ever: it is not valid, or does not fit.
func hopeless(err error) bool {
	switch carillon.KindOf(err) {
	case carillon.ResourceExhausted: // the request, or the answer, and it is about as large the next time
		return true
	case carillon.InvalidArgument:
		return !unknown(err)
	}
	return false
}

// halve cuts words that are more than one.
func (w *words) halve() (one, rest *words) {
	n := w.len() / 2
	one, rest = &words{results: w.results}, &words{results: w.results}
	one.reports, rest.reports = cut(w.reports, &n)
	one.beats, rest.beats = cut(w.beats, &n)
	one.losses, rest.losses = cut(w.losses, &n)
	return one, rest
}

// cut takes up to n of s, and n down by as many.
func cut[T any](s []T, n *int) (one, rest []T) {
	k := min(*n, len(s))
	*n -= k
	return s[:k:k], s[k:]
}

// dropped tells that words were.
func (e *Engine) dropped(n int) {
	if told := e.cfg.Events.Dropped; told != nil {
		told(n)
	}
}

// said is the words as they are passed on.
func (w *words) said(macKey []byte) Said {
	var s Said
	for i := range w.reports {
		r := *w.reports[i].Report
		r.From = nil
		s.Reports = append(s.Reports, r)
	}
	for i := range w.beats {
		s.Beats = append(s.Beats, carillon.Beat{Token: w.beats[i].text, RunID: w.beats[i].tok.Run.String()})
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

// answer tells those who spoke what became of it.
func (w *words) answer(h Heard) {
	accepted, refused := setOf(h.Accepted), setOf(h.Stale)
	for i := range w.beats {
		switch b := &w.beats[i]; {
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

// Hear takes what consumers have said of a partition's attempts to a node that no longer owns it; see [Partitions].
func (e *Engine) Hear(ctx context.Context, number int, s Said) (Heard, error) {
	p, err := e.part(number)
	if err != nil {
		return Heard{}, err
	}
	in, heard := e.parse(number, s)
	return askSeq(ctx, p, call{relayed: true}, func(p *owned, now int64) (Heard, uint64, error) {
		return p.hearFor(in, heard, now)
	})
}

// parse reads the tokens; those that are not of the partition are stale.
func (e *Engine) parse(number int, s Said) (in mail, heard Heard) {
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
	for _, b := range s.Beats {
		if tok, ok := of(b.Token); ok {
			in.beats = append(in.beats, beat{tok: tok, text: b.Token})
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

// hearFor is hear for another node, which is told once the batch of number seq is durable.
func (p *owned) hearFor(in mail, heard Heard, now int64) (h Heard, seq uint64, err error) {
	if err := p.fetchRuns(in, now); err != nil {
		return heard, 0, readError(err)
	}
	in.losses = slices.DeleteFunc(in.losses, func(l loss) bool { // that one never left another node
		return l.undelivered && p.m.HandedOut(l.tok)
	})
	seq = p.hearLosses(in.losses, now)
	results := beside{reports: in.reports}
	p.hearBeats(in.beats, now, &results, func(b *beat) {
		heard.Stale = append(heard.Stale, b.text)
		seq = max(seq, p.m.Newest())
	})
	for i := range in.reports {
		r := &in.reports[i]
		verdict, err := p.judge(r, now)
		switch {
		case err != nil:
			return heard, 0, readError(err)
		case verdict == partition.Missing: // whoever said it says it again, and hears what has become of it
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
