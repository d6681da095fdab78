package engine

import (
	"errors"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// intake takes what consumers reported into the machine of one partition, under one term:
//
//	losses, then heartbeats, then reports --> machine: verdict --batch durable--> answer to the consumer
//
// The verdict on a report is Machine.Report's (partition/duerun.go). commit.go makes the batch durable.
// Nobody is told that an attempt is over before that is durable. What could not be decided is kept in the
// mailbox for the next round, or the next term. Only the lane's goroutine uses it.
type intake struct {
	m       *partition.Machine
	reads   *reads
	records *roundRecords
	replies *replies
	box     *mailbox
}

// take takes what consumers of this node reported.
func (t *intake) take(in *reported, now int64) {
	if err := t.fetchRuns(in, now); err != nil {
		if errors.Is(err, store.ErrDamaged) {
			t.takeEach(in, err, now)
			return
		}
		t.reads.failed(err)
		t.box.putBack(in)
		return
	}
	t.takeLosses(in.losses, now)
	results := resultSet{reports: in.reports}
	t.takeHeartbeats(in.heartbeats, now, &results, t.refuseHeartbeat)
	if !t.reads.outlived() { // otherwise another owner may have handed the run out
		t.confirm(in.heartbeats, now)
	}
	for i := range in.reports {
		t.takeReport(&in.reports[i], now, &results)
	}
}

// takeEach is take when some of the reports are about runs that the store has lost. Each report is taken by
// itself. Those about lost runs cannot be accepted, so their consumers are told to stop.
func (t *intake) takeEach(in *reported, err error, now int64) {
	if in.len() > 1 {
		for i := range in.losses {
			t.take(&reported{losses: in.losses[i : i+1]}, now)
		}
		for i := range in.heartbeats {
			t.take(&reported{heartbeats: in.heartbeats[i : i+1]}, now)
		}
		for i := range in.reports {
			t.take(&reported{reports: in.reports[i : i+1]}, now)
		}
		return
	}
	t.reads.failed(err)
	for i := range in.heartbeats {
		stale(in.heartbeats[i].from, in.heartbeats[i].text)
	}
	for i := range in.reports {
		stale(in.reports[i].From, in.reports[i].Token)
	}
}

// takeHeartbeats takes heartbeats, before results: the last heartbeat of a run that ends in this round is not
// stale. It calls refuse for heartbeats of attempts that are not in force.
func (t *intake) takeHeartbeats(beats []heartbeat, now int64, results *resultSet, refuse func(*heartbeat)) {
	for i := range beats {
		b := &beats[i]
		if t.m.Attempts.Heartbeat(now, b.tok) != partition.Accepted && !results.have(b.text) &&
			!t.m.Window.Awaits(b.tok, now) {
			refuse(b)
		}
	}
}

// refuseHeartbeat tells the sender of a heartbeat that its attempt is over, once that is durable, as for
// results. If it does not become durable, the next term judges the heartbeat.
func (t *intake) refuseHeartbeat(b *heartbeat) {
	t.replies.await(t.m.Newest(), func(err error) {
		if err != nil {
			t.box.putBack(&reported{heartbeats: []heartbeat{*b}})
			return
		}
		stale(b.from, b.text)
	})
}

// confirm answers the heartbeats that asked whether their attempts are in force, if they are.
func (t *intake) confirm(beats []heartbeat, now int64) {
	for i := range beats {
		if b := &beats[i]; b.ask && t.m.Attempts.Heartbeat(now, b.tok) == partition.Accepted {
			b.confirm()
		}
	}
}

// takeLosses takes attempts that nobody will finish. It returns the batch that holds what became of them.
func (t *intake) takeLosses(losses []loss, now int64) (seq uint64) {
	for i := range losses {
		switch l := &losses[i]; {
		case l.former && t.m.Attempts.Made(l.tok): // another consumer has it now
		case l.others && l.undelivered && t.m.Attempts.SharedInForce(l.tok):
			// Whoever had the term did not send it, but another owner in between may have.
		case l.undelivered:
			t.m.Attempts.Undelivered(now, l.tok)
		default:
			t.m.Lost(now, l.tok, "the worker left")
		}
		seq = max(seq, t.m.After())
	}
	return seq
}

// keep keeps a report for the next round, or for the next term. Its consumer gets no answer until then.
func (t *intake) keep(r *report) { t.box.putBack(&reported{reports: []report{*r}}) }

// takeReport takes a report, and answers it once the verdict is durable: m.After is the number of the batch
// that holds what the report changed, m.Newest that of the newest change.
func (t *intake) takeReport(r *report, now int64, results *resultSet) {
	verdict, err := t.judge(r, now)
	switch {
	case errors.Is(err, store.ErrDamaged):
		t.reads.failed(err)
		stale(r.From, r.Token)
	case err != nil:
		t.reads.failed(err)
		t.keep(r)
	case verdict == partition.Missing:
		t.keep(r)
	case verdict != partition.Accepted && results.answers(r):
	// The change that ended the attempt may be lost; then its run is in doubt and the token in force again.
	case verdict != partition.Accepted:
		t.replies.await(t.m.Newest(), func(err error) {
			if err != nil {
				t.keep(r)
			} else {
				stale(r.From, r.Token)
			}
		})
	default:
		t.replies.await(t.m.After(), func(err error) {
			switch {
			case err != nil:
				t.keep(r)
			// For progress the worker would take it for the end of the run.
			case r.From != nil && r.Outcome != carillon.OutcomeProgress:
				r.From.Accepted(r.Token)
			}
		})
	}
}

// takeRelayed is take for what another node relayed, which is answered once batch seq is durable. result
// holds what is known of it already.
func (t *intake) takeRelayed(in *reported, result message.RelayResult,
	now int64) (_ message.RelayResult, seq uint64, err error) {
	if err := t.fetchRuns(in, now); err != nil {
		return result, 0, readError(err)
	}
	// This term has handed it out; the report is about the other node's delivery.
	in.losses = slices.DeleteFunc(in.losses, func(l loss) bool {
		return l.undelivered && t.m.Attempts.HandedOut(l.tok)
	})
	seq = t.takeLosses(in.losses, now)
	results := resultSet{reports: in.reports}
	t.takeHeartbeats(in.heartbeats, now, &results, func(b *heartbeat) {
		result.Stale = append(result.Stale, b.text)
		seq = max(seq, t.m.Newest())
	})
	for i := range in.reports {
		r := &in.reports[i]
		verdict, err := t.judge(r, now)
		switch {
		case err != nil:
			return result, 0, readError(err)
		case verdict == partition.Missing: // the consumer sends it again, and is then told what became of it
			t.keep(r)
		case verdict != partition.Accepted:
			if !results.answers(r) {
				result.Stale = append(result.Stale, r.Token)
				seq = max(seq, t.m.Newest())
			}
		default:
			result.Accepted = append(result.Accepted, r.Token)
			seq = max(seq, t.m.After())
		}
	}
	return result, seq, nil
}

// judge takes a report and returns the verdict: by the attempt in force, or by the finished run in a batch in
// flight or in the history. The report may be of an attempt in doubt whose record has not been read yet; then
// the verdict is Missing for now.
func (t *intake) judge(r *report, now int64) (partition.Verdict, error) {
	if ref, here := t.m.Records.Holds(r.tok.Run); here && foreign(r, ref.Namespace) {
		return partition.Stale, nil
	}
	if verdict := t.m.Report(now, r.tok, r.Report); verdict != partition.Missing {
		return verdict, nil
	}
	ended, found, err := t.records.ended(r.tok.Run)
	if err == nil && !found && t.m.Window.Awaits(r.tok, now) {
		return partition.Missing, nil
	}
	found = found && !foreign(r, ended.Key.Namespace)
	return partition.Settled(r.tok, r.Report, ended, found), err
}

// foreign reports whether the consumer that reports belongs to another namespace than the run.
func foreign(r *report, namespace string) bool { return r.Namespace != "" && r.Namespace != namespace }

// fetchRuns loads runs that reports name and memory lacks: those that an earlier owner handed out, and
// evicted ones.
func (t *intake) fetchRuns(in *reported, now int64) error {
	var ids []store.RunID
	for i := range in.reports {
		ids = append(ids, in.reports[i].tok.Run)
	}
	for i := range in.heartbeats {
		if id := in.heartbeats[i].tok.Run; !t.m.Attempts.TakesHeartbeat(id) {
			ids = append(ids, id)
		}
	}
	for i := range in.losses {
		l := &in.losses[i]
		if _, here := t.m.Records.Holds(l.tok.Run); here && l.undelivered {
			// It is read when there is room: the end of a stream may take back more runs than fit into
			// memory.
			continue
		}
		ids = append(ids, l.tok.Run)
	}
	return t.records.bring(nil, ids, now)
}

// resultSet finds the results among reports. A heartbeat or progress report that is not in force is not
// refused if a result of the same attempt came with it: the answer to the result is enough. A result that is
// reported twice is accepted although its run has ended.
type resultSet struct {
	reports []report
	tokens  map[string]bool // nil: not collected yet
}

// add adds reports that have come in since.
func (s *resultSet) add(reports []report) {
	if len(reports) > 0 {
		s.reports, s.tokens = append(s.reports, reports...), nil
	}
}

// have reports whether there is a result with this token.
func (s *resultSet) have(token string) bool {
	if s.tokens == nil {
		s.tokens = make(map[string]bool, len(s.reports))
		for i := range s.reports {
			if s.reports[i].Outcome != carillon.OutcomeProgress {
				s.tokens[s.reports[i].Token] = true
			}
		}
	}
	return s.tokens[token]
}

// answers reports whether r is a progress report that the result of its attempt answers.
func (s *resultSet) answers(r *report) bool {
	return r.Outcome == carillon.OutcomeProgress && s.have(r.Token)
}
