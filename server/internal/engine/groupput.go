package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// groupPut is a batch put all of whose partitions are in one lane, on a store that makes groups durable. It
// needs no intent: a group is durable as a whole or not at all, so it is enough that all jobs are in the same
// group. The lane ensures that:
//
//	rounds of all partitions -> putGroups: admit all portions, then put all -> commit: one group takes them
//
// admit loads everything the puts need and checks that they will succeed and go into the next batch of each
// partition. From the first put to the commit nothing else runs in the lane, and no group is in flight. If a
// portion cannot be admitted, because its partition has no term, is leaving, or has another batch that must
// be sent first, nothing is put, and errApart makes the caller take the way with an intent (intents.go). If a
// put fails after others have changed memory, all partitions involved lose their terms (giveUp), since memory
// holds part of a batch. Two ways are kept because this one is twice as fast.
type groupPut struct {
	waitingCall[struct{}]
	ctx      context.Context // the caller's
	held     string          // names the room that is set aside for it; "": none is
	portions []portion       // in the order of their partitions

	// Of the lane's goroutine alone.
	left   int // portions that are not durable yet
	failed error
}

// portion is the part of a group put that belongs to one partition.
type portion struct {
	p       *partitionRunner
	indices []int // of its jobs in the batch
	reqs    []message.PutRequest
	puts    []carillon.PutResult
}

// errApart: the jobs cannot all go into the next group.
var errApart = errors.New("a batch put cannot be made durable in one group")

// lane returns the lane that can make all jobs of a batch durable as one group; nil if there is none.
func (b byPart) lane() *lane {
	var in *lane
	for p := range b {
		if in == nil {
			in = p.lane
		}
		if p.lane != in {
			return nil
		}
	}
	if in.grouper == nil {
		return nil
	}
	return in
}

// putGroup stores jobs of several partitions of the lane, or none. held is the name of the room that is set
// aside for them; "" is none. errApart says that an intent is needed.
func (l *lane) putGroup(ctx context.Context, reqs []message.PutRequest,
	parts byPart, held string) ([]carillon.PutResult, error) {
	j := &groupPut{ctx: ctx, held: held,
		waitingCall: waitingCall[struct{}]{done: make(chan outcome[struct{}], 1)}}
	for _, p := range l.parts {
		if indices := parts[p]; len(indices) > 0 {
			s := portion{p: p, indices: indices}
			for _, i := range indices {
				s.reqs = append(s.reqs, reqs[i])
			}
			j.portions = append(j.portions, s)
		}
	}
	l.e.cfg.Enter(ctx, j.portions[0].p.number, "")
	if !l.groupPuts.put(j) {
		return nil, errStopping()
	}
	l.ring()
	if _, err := j.wait(ctx); err != nil {
		return nil, err
	}
	puts := make([]carillon.PutResult, len(reqs))
	for _, s := range j.portions {
		for k, i := range s.indices {
			puts[i] = s.puts[k]
		}
	}
	return puts, nil
}

// groupPutJobs is how many jobs of group puts go into one group, so that the partitions get their rounds in
// between. One put may have more.
const groupPutJobs = carillon.MaxBatch

// groupPuts is the queue of group puts that wait for the next group.
type groupPuts struct {
	mu     sync.Mutex
	wait   []*groupPut
	closed bool
}

// put adds a group put. It returns false, and does nothing, if the lane has ended.
func (q *groupPuts) put(j *groupPut) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.wait = append(q.wait, j)
	return true
}

// take removes group puts from the front until they have so many jobs. more reports whether some are left.
func (q *groupPuts) take(jobs int) (js []*groupPut, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for ; n < len(q.wait) && jobs > 0; n++ {
		for _, s := range q.wait[n].portions {
			jobs -= len(s.reqs)
		}
	}
	js = slices.Clone(q.wait[:n])
	q.wait = slices.Delete(q.wait, 0, n)
	return js, len(q.wait) > 0
}

// close refuses the waiting group puts and all later ones.
func (q *groupPuts) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, j := range q.wait {
		j.end(errStopping())
	}
	q.wait = nil
}

// putGroups puts the jobs of waiting group puts into memory, if the lane is about to send a group.
func (l *lane) putGroups() {
	if l.flying {
		return
	}
	js, more := l.groupPuts.take(groupPutJobs)
	if more {
		l.ring()
	}
	l.fetchFor(js)
	for i, j := range js {
		if err := l.put(j); err != nil {
			giveUp(js[:i+1], err)
			j.end(err)
		}
	}
	for _, p := range l.parts {
		if slices.ContainsFunc(js, func(j *groupPut) bool { return j.about(p) }) {
			p.finish()
		}
	}
}

// about reports whether a portion belongs to the partition.
func (j *groupPut) about(p *partitionRunner) bool {
	return slices.ContainsFunc(j.portions, func(s portion) bool { return s.p == p })
}

// put puts the jobs into memory. Until the commit nothing else may happen in the lane and no partition may
// lose its term, which would tear apart group puts that are in memory already. After an error memory holds a
// part of the jobs.
func (l *lane) put(j *groupPut) error {
	now := l.e.now()
	for i := range j.portions {
		if p := j.portions[i].p; j.held != "" && p.own.is(owned) {
			p.m.Usage.Unhold(j.held)
		}
	}
	if !j.admitted(now) {
		return nil
	}
	if overdue(j.ctx) || !j.begin() {
		j.withdraw()
		j.end(tooLate(j.ctx))
		return nil
	}
	j.left = len(j.portions)
	for i := range j.portions {
		s := &j.portions[i]
		s.p.m.Begin()
		var bad int
		if s.puts, bad, j.failed = s.p.m.Jobs.PutAll(now, s.reqs); j.failed != nil {
			return inBatch(s.indices[bad], j.failed)
		}
	}
	first := j.portions[0].p // which records who has made the call: the group is durable as a whole
	record(first, audit.From(j.ctx), now)
	for _, s := range j.portions {
		s.p.replies.add(answer{seq: s.p.m.After(), answer: j.settled, final: true})
	}
	return nil
}

// admitted reports whether all jobs can be put now. If not, the caller has been answered.
func (j *groupPut) admitted(now int64) bool {
	for i := range j.portions {
		if err := j.portions[i].admit(now); err != nil {
			j.end(err)
			return false
		}
	}
	return true
}

// giveUp ends the terms of partitions whose memory holds group puts, of which the last turned out to be
// impossible. Nothing of them has been sent.
func giveUp(js []*groupPut, err error) {
	for _, j := range js {
		for _, s := range j.portions {
			if s.p.own.holds() {
				s.p.lose(err)
			}
		}
	}
}

// end answers the caller.
func (j *groupPut) end(err error) { j.done <- outcome[struct{}]{err: err} }

// settled takes the outcome of one portion, and answers after the last.
func (j *groupPut) settled(err error) {
	if err != nil && (j.failed == nil || unknown(err)) {
		j.failed = err
	}
	if j.left--; j.left == 0 {
		if j.failed == nil {
			audit.From(j.ctx).Stored()
		}
		j.end(j.failed)
	}
}

// admit returns an error if the jobs cannot be put now. After nil, putting them succeeds.
func (s *portion) admit(now int64) error {
	p := s.p
	if !p.own.is(owned) || p.reads.outlived() {
		return errApart
	}
	refs := make([]store.Ref, len(s.reqs))
	for i := range s.reqs {
		refs[i] = store.Ref{Key: s.reqs[i].Job.Key()}
	}
	err := p.records.bring(refs, nil, now)
	for i := 0; err == nil && i < len(refs); i++ {
		err = p.records.bringPending(refs[i].Key, now)
	}
	if err != nil {
		p.reads.failed(err)
		return readError(err)
	}
	if bad, err := p.m.Jobs.MayPut(now, s.reqs); err != nil {
		return inBatch(s.indices[bad], err)
	}
	if !p.m.Jobs.PutsNext(s.reqs) {
		return errApart
	}
	return nil
}
