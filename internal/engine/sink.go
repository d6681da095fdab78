package engine

import (
	"cmp"
	"errors"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// Reports takes what consumers report about attempts. A token that is not of this store is stale. Each
// partition gets its reports as one piece of mail.
func (e *Engine) Reports(rs []partition.Report) {
	in := make([]report, 0, len(rs))
	for i := range rs {
		tok, p := e.token(rs[i].Token)
		if p == nil {
			stale(rs[i].From, rs[i].Token)
			continue
		}
		in = append(in, report{tok: tok, Report: &rs[i]})
	}
	each(e, in, func(r *report) uint16 { return r.tok.Run.Partition }, func(m *mail, same []report) { m.reports = append(m.reports, same...) })
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
func (e *Engine) Heartbeats(bs []carillon.Heartbeat, from partition.Reporter) {
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
// [partition.Machine.Undelivered].
func (e *Engine) Undelivered(tokens []string) { e.losses(tokens, true) }

func (e *Engine) losses(tokens []string, undelivered bool) {
	in := make([]loss, 0, len(tokens))
	for _, t := range tokens {
		if tok, p := e.token(t); p != nil {
			in = append(in, loss{tok: tok, undelivered: undelivered})
		}
	}
	each(e, in, func(l *loss) uint16 { return l.tok.Run.Partition }, func(m *mail, same []loss) { m.losses = append(m.losses, same...) })
}

// Room tells a partition that slots of a queue are reserved for it.
func (e *Engine) Room(p int, q partition.Queue) {
	e.parts[p].box.put(func(m *mail) { m.rooms = append(m.rooms, q) })
}

// Consumers tells all partitions that a queue has got its first consumer.
func (e *Engine) Consumers(q partition.Queue) {
	for _, p := range e.parts {
		p.box.put(func(m *mail) { m.consumers = append(m.consumers, q) })
	}
}

// token parses a token and finds its partition; nil if there is none.
func (e *Engine) token(text string) (partition.Token, *partitionRunner) {
	s, ok := e.signers.Get().(*partition.Signer)
	if !ok {
		s = partition.NewSigner(e.macKey)
	}
	tok, err := s.Parse(text)
	e.signers.Put(s)
	if err != nil || int(tok.Run.Partition) >= len(e.parts) {
		return tok, nil
	}
	return tok, e.parts[tok.Run.Partition]
}

// confirm answers a heartbeat that asked whether its attempt is in force.
func (b *heartbeat) confirm() {
	if c, ok := b.from.(partition.Confirmer); ok && b.ask {
		c.Confirmed(b.text)
	}
}

func stale(to partition.Reporter, token string) {
	if to != nil {
		to.Stale(token)
	}
}

// hear gives the machine what consumers reported.
func (p *partitionRunner) hear(in mail, now int64) {
	if err := p.fetchRuns(in, now); err != nil {
		if errors.Is(err, store.ErrDamaged) {
			p.hearLeft(in, err, now)
			return
		}
		p.readFailed(err)
		p.postpone(in)
		return
	}
	p.hearLosses(in.losses, now)
	results := beside{reports: in.reports}
	p.hearHeartbeats(in.heartbeats, now, &results, p.refuseHeartbeat)
	if !p.outlived() { // otherwise another owner may have handed the run out
		p.confirm(in.heartbeats, now)
	}
	for i := range in.reports {
		p.hearReport(&in.reports[i], now, &results)
	}
}

// hearLeft is hear when some of the reports are about runs that the store has lost. Each report is heard by
// itself. Those about lost runs cannot be accepted, so their consumers are told to stop.
func (p *partitionRunner) hearLeft(in mail, err error, now int64) {
	if len(in.reports)+len(in.heartbeats)+len(in.losses) > 1 {
		for i := range in.losses {
			p.hear(mail{losses: in.losses[i : i+1]}, now)
		}
		for i := range in.heartbeats {
			p.hear(mail{heartbeats: in.heartbeats[i : i+1]}, now)
		}
		for i := range in.reports {
			p.hear(mail{reports: in.reports[i : i+1]}, now)
		}
		return
	}
	p.readFailed(err)
	for i := range in.heartbeats {
		stale(in.heartbeats[i].from, in.heartbeats[i].text)
	}
	for i := range in.reports {
		stale(in.reports[i].From, in.reports[i].Token)
	}
}

// hearHeartbeats takes heartbeats, before results: the last heartbeat of a run that ends in this round is not
// stale. It calls refuse for heartbeats of attempts that are not in force.
func (p *partitionRunner) hearHeartbeats(beats []heartbeat, now int64, results *beside, refuse func(*heartbeat)) {
	for i := range beats {
		if b := &beats[i]; p.m.Heartbeat(now, b.tok) != partition.Accepted && !results.have(b.text) && !p.m.Awaits(b.tok, now) {
			refuse(b)
		}
	}
}

// refuseHeartbeat tells the sender of a heartbeat that its attempt is over, once that is durable, as for
// results. If it does not become durable, the next term judges the heartbeat.
func (p *partitionRunner) refuseHeartbeat(b *heartbeat) {
	p.reply(p.m.Newest(), func(err error) {
		if err != nil {
			p.postpone(mail{heartbeats: []heartbeat{*b}})
			return
		}
		stale(b.from, b.text)
	})
}

// confirm answers the heartbeats that asked whether their attempts are in force, if they are.
func (p *partitionRunner) confirm(beats []heartbeat, now int64) {
	for i := range beats {
		if b := &beats[i]; b.ask && p.m.Heartbeat(now, b.tok) == partition.Accepted {
			b.confirm()
		}
	}
}

// beside finds the results among reports. A heartbeat or progress report that is not in force is not refused
// if a result of the same attempt came with it: the answer to the result is enough. A result that is reported
// twice is accepted although its run has ended.
type beside struct {
	reports []report
	tokens  map[string]bool // nil: not collected yet
}

// add adds reports that have come in since.
func (r *beside) add(reports []report) {
	if len(reports) > 0 {
		r.reports, r.tokens = append(r.reports, reports...), nil
	}
}

// have reports whether there is a result with this token.
func (r *beside) have(token string) bool {
	if r.tokens == nil {
		r.tokens = make(map[string]bool, len(r.reports))
		for i := range r.reports {
			if r.reports[i].Outcome != carillon.OutcomeProgress {
				r.tokens[r.reports[i].Token] = true
			}
		}
	}
	return r.tokens[token]
}

// answer reports whether told is a progress report that the result of its attempt answers.
func (r *beside) answer(told *report) bool {
	return told.Outcome == carillon.OutcomeProgress && r.have(told.Token)
}

// hearLosses takes attempts that nobody will finish. It returns the batch that holds what became of them.
func (p *partitionRunner) hearLosses(losses []loss, now int64) (seq uint64) {
	for i := range losses {
		switch l := &losses[i]; {
		case l.former && p.m.Made(l.tok): // another consumer has it now
		case l.undelivered:
			p.m.Undelivered(now, l.tok)
		default:
			p.m.Lost(now, l.tok, "the worker left")
		}
		seq = max(seq, p.m.After())
	}
	return seq
}

// postpone keeps reports for the next round. Consumers that get no answer need not repeat them. Mail that has
// come in meanwhile waits behind them.
func (p *partitionRunner) postpone(in mail) { p.box.putBack(&in) }

func (p *partitionRunner) hearReport(r *report, now int64, results *beside) {
	verdict, err := p.judge(r, now)
	switch {
	case errors.Is(err, store.ErrDamaged):
		p.readFailed(err)
		stale(r.From, r.Token)
	case err != nil:
		p.readFailed(err)
		p.postpone(mail{reports: []report{*r}})
	case verdict == partition.Missing:
		p.postpone(mail{reports: []report{*r}})
	case verdict != partition.Accepted && results.answer(r):
	// The change that ended the attempt may be lost; then its run is in doubt and the token in force again.
	case verdict != partition.Accepted:
		p.reply(p.m.Newest(), func(err error) {
			if err != nil {
				p.postpone(mail{reports: []report{*r}})
			} else {
				stale(r.From, r.Token)
			}
		})
	default:
		p.reply(p.m.After(), func(err error) {
			switch {
			case err != nil: // the next term hears it again
				p.postpone(mail{reports: []report{*r}})
			// For progress the worker would take it for the end of the run.
			case r.From != nil && r.Outcome != carillon.OutcomeProgress:
				r.From.Accepted(r.Token)
			}
		})
	}
}

// judge takes a report and returns the verdict: by the attempt in force, or by the finished run in a batch in
// flight or in the history. The report may be of an attempt in doubt whose record has not been read yet; then
// the verdict is Missing for now.
func (p *partitionRunner) judge(r *report, now int64) (partition.Verdict, error) {
	if ref, here := p.m.Holds(r.tok.Run); here && foreign(r, ref.Namespace) {
		return partition.Stale, nil
	}
	if verdict := p.m.Report(now, r.tok, r.Report); verdict != partition.Missing {
		return verdict, nil
	}
	ended, found, err := p.ended(r.tok.Run)
	if err == nil && !found && p.m.Awaits(r.tok, now) {
		return partition.Missing, nil
	}
	found = found && !foreign(r, ended.Key.Namespace)
	return partition.Settled(r.tok, r.Report, ended, found), err
}

// foreign reports whether the consumer that reports belongs to another namespace than the run.
func foreign(r *report, namespace string) bool { return r.Namespace != "" && r.Namespace != namespace }

// fetchRuns loads runs that reports name and memory lacks: those that an earlier owner handed out, and
// evicted ones.
func (p *partitionRunner) fetchRuns(in mail, now int64) error {
	var ids []identity.Run
	for i := range in.reports {
		ids = append(ids, in.reports[i].tok.Run)
	}
	for i := range in.heartbeats {
		if id := in.heartbeats[i].tok.Run; !p.m.TakesHeartbeat(id) {
			ids = append(ids, id)
		}
	}
	for i := range in.losses {
		l := &in.losses[i]
		if _, here := p.m.Holds(l.tok.Run); here && l.undelivered {
			// It is read when there is room: the end of a stream may take back more runs than fit into
			// memory.
			continue
		}
		ids = append(ids, l.tok.Run)
	}
	return p.bring(nil, ids, now)
}

// bring loads the records that operations need, with one read for all of them.
func (p *partitionRunner) bring(refs []store.Ref, live []identity.Run, now int64) error {
	var missing []store.Ref
	var seen map[store.Ref]bool // usually nothing is missing
	want := func(ref store.Ref) {
		if !seen[ref] && !p.missing[ref] && !p.m.Has(ref) {
			if seen == nil {
				seen = map[store.Ref]bool{}
			}
			seen[ref] = true
			missing = append(missing, ref)
		}
	}
	for _, ref := range refs {
		want(ref)
	}
	for _, id := range live {
		ref, here := p.m.Holds(id)
		if !here {
			var err error
			if ref, here, err = p.live(id); err != nil {
				return err
			}
		}
		if here {
			want(ref)
			if ref.Seq != 0 {
				want(ref.Job())
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	records, err := p.read(missing)
	if err != nil {
		return err
	}
	p.m.Load(records, now)
	p.touched = append(p.touched, missing...)
	return nil
}
