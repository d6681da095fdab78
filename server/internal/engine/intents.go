package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// batches tracks the batch puts that this node is completing.
type batches struct {
	cfg          *Config
	partitions   *partitions
	dependencies *dependencies
	quotas       *quotas

	mu       sync.Mutex
	live     map[string]chan struct{} // by id; closed when nobody works on the batch any more
	reported map[int]store.Term       // terms of other nodes' partitions, as last reported
	work     sync.WaitGroup
	ended    bool
}

// run runs f in the background. It returns false, and does nothing, if the engine has ended.
func (bs *batches) run(f func()) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.ended {
		return false
	}
	bs.work.Go(f)
	return true
}

// end waits for what runs in the background. Stop has been called.
func (bs *batches) end() {
	bs.mu.Lock()
	bs.ended = true
	bs.mu.Unlock()
	bs.work.Wait()
}

// begin makes the caller the only one that works on a batch. If somebody else does, it returns a channel that
// is closed when that work has ended.
func (bs *batches) begin(id string) (busy <-chan struct{}) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if other, here := bs.live[id]; here {
		return other
	}
	bs.live[id] = make(chan struct{})
	return nil
}

func (bs *batches) finish(id string) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	close(bs.live[id])
	delete(bs.live, id)
}

// batch is a batch put across partitions that may be in different lanes and on different nodes. No single
// store write covers them, so a durable commit intent makes the batch all or nothing:
//
//	learn   ask every partition for its term; shares are stored under these terms only (terms.go)
//	decide  the coordinator, the partition of the first job, writes the intent, which holds all jobs.
//	        Once that is durable the batch is decided: it will be stored, whatever fails from here on.
//	apply   each partition stores its share together with an applied marker, in one store batch
//	clean   the coordinator deletes the intent; the markers go later (clean, marks.go)
//
//	caller -> coordinator: intent --+--> partition A: share + marker --+--> coordinator: no intent
//	                      (decided) +--> partition B: share + marker --+
//
// Before the intent is durable no job is stored, and a failure leaves nothing but registered dependencies.
// After it, apply is tried until every partition has its share. If the coordinator's term ends first, its
// next owner finds the intent (goOn), rolls the batch forward and deletes the intent. A share may therefore
// be sent more than once, by two owners of the coordinator: the applied marker lets a partition recognize a
// share that it has stored. The markers outlive the intent by markKept, because a share sent by a deposed
// owner may still arrive.
type batch struct {
	all         *batches
	id          string
	coordinator *partitionRunner // the partition of the first job; it holds the intent
	term        store.Term       // the coordinator's
	byPart      byPart
	puts        []carillon.PutResult
	late        atomic.Bool // its caller has stopped waiting
	// The coordinator got a new term, in which shares that were stored may be missing.
	retaken atomic.Bool

	// Guards the rest, and term; a mutex would be held while the store is asked.
	turn   turn
	terms  map[*partitionRunner]store.Term // shares may be stored under these
	reqs   []message.PutRequest
	linked int64 // when the dependencies were last registered
}

// turn is a mutex made of a channel. Unlike a sync.Mutex it may be held across a wait: in a synctest bubble a
// goroutine that waits for it counts as durably blocked.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take() { t <- struct{}{} }
func (t turn) give() { <-t }

func (bs *batches) newID() (string, error) {
	id, err := ulid.New(ulid.Timestamp(bs.cfg.Now()), bs.cfg.Random)
	if err != nil {
		return "", fmt.Errorf("random bytes for a batch: %w", err)
	}
	return id.String(), nil
}

func (bs *batches) newBatch(id string, reqs []message.PutRequest) *batch {
	return &batch{all: bs, id: id, turn: newTurn(), reqs: reqs, byPart: bs.partitions.byPartition(reqs),
		coordinator: bs.partitions.of(reqs[0].Job.Key()), terms: map[*partitionRunner]store.Term{},
		puts: make([]carillon.PutResult, len(reqs))}
}

// putAcross stores jobs of several partitions. If ctx ends after the decision, the batch is completed in the
// background.
func (bs *batches) putAcross(ctx context.Context, reqs []message.PutRequest) ([]carillon.PutResult, error) {
	bs.cfg.Enter(ctx, -1, "")
	id, err := bs.newID()
	if err != nil {
		return nil, err
	}
	b := bs.newBatch(id, reqs)
	b.linked = bs.cfg.now()
	decision := &waitingCall[struct{}]{done: make(chan outcome[struct{}], 1)}
	done := make(chan error, 1)
	if !bs.run(func() { b.put(ctx, decision, done) }) {
		return nil, bs.partitions.errStopping()
	}
	select {
	case err := <-done:
		return b.puts, err
	case <-ctx.Done():
		if decision.withdraw() {
			return nil, tooLate(ctx)
		}
		b.late.Store(true)
		return nil, ended(ctx)
	}
}

// put decides the batch and completes it.
func (b *batch) put(ctx context.Context, decision *waitingCall[struct{}], done chan<- error) {
	b.all.begin(b.id) // the id is new, so nobody works on it
	defer b.all.finish(b.id)
	b.learnTerms(ctx)
	drop, err := b.all.holdRoom(ctx, b.id, b.reqs, b.byPart)
	if err != nil {
		done <- err
		return
	}
	if err := b.decide(ctx, decision); err != nil {
		done <- err // if it is unknown whether the intent was written, the coordinator's next owner finds out
		if !unknown(err) {
			drop()
		}
		return
	}
	if err := b.apply(); err != nil {
		done <- err
		return
	}
	b.complete()
	done <- nil
	b.clean()
}

// decide writes the intent, unless ctx ends first.
func (b *batch) decide(ctx context.Context, decision *waitingCall[struct{}]) error {
	intents := partition.CommitIntents(b.id, b.reqs[0].At, b.reqs)
	sent := decision.send(ctx, b.coordinator, changing(ctx, call{of: b.id}),
		func(p *partitionRunner, _ int64) (struct{}, uint64, error) {
			b.term = p.own.term
			p.m.Write(intents...)
			return struct{}{}, p.m.After(), nil
		})
	if !sent {
		return b.all.partitions.errStopping()
	}
	return (<-decision.done).err
}

// errDeposed: the coordinator's term is over, and its next owner completes the batch.
var errDeposed = errors.New("the term of the batch's coordinator is over")

// deposed reports whether the coordinator may have another owner, which completes the batch and deletes its
// intent. If the node is alone there can be no other owner.
func (b *batch) deposed() bool {
	l := &b.coordinator.lease
	term, _ := l.held()
	return b.all.partitions.peers != nil && (term != b.term || l.expired(b.coordinator.e.elapsed()))
}

// ask calls f for the batch while the coordinator's term is in force. A partition does nothing for f once f's
// ctx has ended, which bounds how late f can take effect after that term.
func (b *batch) ask(f func(ctx context.Context) error) error {
	life := context.Background() // alone: the lanes answer every request, even at Stop
	if b.all.partitions.peers != nil {
		life = b.all.partitions.life
	}
	ctx, cancel := context.WithTimeout(life, answerWithin)
	defer cancel()
	if b.deposed() { // checked after the deadline is set, as the process may be suspended in between
		return errDeposed
	}
	return f(ctx)
}

// write has the coordinator write metadata records.
func (b *batch) write(ctx context.Context, small []store.MetaRecord) error {
	_, err := inRound(ctx, b.coordinator, call{of: b.id}, func(p *partitionRunner, _ int64) (struct{}, error) {
		if p.own.term != b.term {
			return struct{}{}, errDeposed
		}
		p.m.Write(small...)
		return struct{}{}, nil
	})
	return err
}

// apply stores the jobs, each partition's in one store batch, and retries until all have. It returns an error
// if the engine stops or the coordinator's term ends first.
func (b *batch) apply() error {
	for {
		b.retaken.Store(false)
		if err := b.applyAll(); err != nil || !b.retaken.Load() {
			return err
		}
	}
}

// applyAll is apply for as long as the coordinator keeps its term.
func (b *batch) applyAll() error {
	results := make(chan error, len(b.byPart))
	for _, p := range inOrder(b.byPart) {
		go func() {
			results <- b.all.insist(func() error {
				return b.ask(func(ctx context.Context) error { return b.applyIn(ctx, p, b.byPart[p]) })
			})
		}()
	}
	return firstOf(results, len(b.byPart))
}

// complete fills in the results of puts that are not known, because the answer of a peer was lost.
func (b *batch) complete() {
	for i := range b.puts {
		if b.puts[i].Job.Name != "" {
			continue
		}
		b.puts[i] = carillon.PutResult{Job: *b.reqs[i].Job, Changed: true}
		if j, err := b.all.partitions.storedJob(b.all.partitions.life, b.reqs[i].Job.Key(), nil); err == nil {
			b.puts[i].Job, b.puts[i].Created = j, j.Status.Generation == 1
		}
	}
}

// linkAgain is when a batch that takes long registers its dependencies again. Otherwise they would be taken
// for forgotten.
const linkAgain = 20 * time.Second

func (b *batch) applyIn(ctx context.Context, p *partitionRunner, indices []int) error {
	b.all.cfg.Enter(ctx, p.number, b.id)
	term, err := b.termFor(ctx, p)
	if err != nil {
		return err
	}
	b.turn.take()
	share := message.Share{Batch: b.id, Coordinator: b.coordinator.number, Late: b.late.Load(), Term: term}
	if b.all.cfg.now()-b.linked > int64(linkAgain) {
		if err := b.link(ctx); err != nil {
			b.turn.give()
			return err
		}
	}
	for _, i := range indices {
		share.Reqs = append(share.Reqs, b.reqs[i])
	}
	b.turn.give()
	note := func(puts []carillon.PutResult) {
		for k := range puts { // none if an earlier try, whose answer was lost, has stored them
			b.puts[indices[k]] = puts[k]
		}
	}
	if !b.all.partitions.remote(p) {
		_, err = storeShare(ctx, p, &share, note)
	} else {
		var puts []carillon.PutResult
		if puts, err = message.Send(ctx, b.all.partitions.peers, p.number,
			message.ApplyShare{Share: &share}); err == nil {
			note(puts)
		}
	}
	if other, refused := errors.AsType[*message.OtherTermError](err); refused {
		b.forgetTerm(p, other.Term)
	}
	return err
}

// storeShare has a partition store its share of a batch. stored gets the results of the puts, on the lane's
// goroutine and before they are durable.
func storeShare(ctx context.Context, p *partitionRunner, s *message.Share,
	stored func([]carillon.PutResult)) (struct{}, error) {
	c := call{pending: true, of: s.Batch}
	for i := range s.Reqs {
		c.refs = append(c.refs, store.Ref{Key: s.Reqs[i].Job.Key()})
	}
	return inRound(ctx, p, c, func(p *partitionRunner, now int64) (struct{}, error) {
		puts, err := p.m.Jobs.ApplyShare(now, s)
		if other, refused := errors.AsType[*message.OtherTermError](err); refused {
			return struct{}{}, message.OtherTerm(p.number, other)
		}
		if err != nil {
			p.e.log.Error("a job of a decided batch could not be stored", "batch", s.Batch, "error", err)
		}
		stored(puts)
		return struct{}{}, nil
	})
}

// link registers the dependencies of the batch's jobs.
func (b *batch) link(ctx context.Context) error {
	_, err := b.all.dependencies.link(ctx, b.reqs, true)
	if k := carillon.KindOf(err); err != nil && (k == carillon.Unavailable || k == carillon.DeadlineExceeded) {
		return err
	}
	if err != nil { // too many jobs wait; the batch is decided all the same
		b.all.partitions.log.Error("jobs of a decided batch are not told of successes", "batch", b.id, "error", err)
	}
	b.linked = b.all.cfg.now()
	return nil
}

// clean deletes the intent. The applied markers stay for a while: a share of a deposed owner must still find
// its marker. They are swept later (marks.go).
func (b *batch) clean() {
	none := partition.WithdrawIntents(b.id, len(b.reqs))
	// Who could not delete it is stopping, or deposed: the coordinator's next owner finds it.
	_ = b.all.insist(func() error {
		return b.ask(func(ctx context.Context) error { return b.write(ctx, none) })
	})
}

// insistEvery is the pause between tries of something that must be done.
const insistEvery = 500 * time.Millisecond

// insist repeats f until it succeeds. It gives up when the engine stops, and when f was for a term that is
// over.
func (bs *batches) insist(f func() error) error {
	for {
		err := f()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errDeposed):
			return undone("the partition that coordinates the batch is being taken over: its next owner will store the jobs")
		case errors.Is(err, errNoIntent):
			return carillon.Errorf(carillon.Unavailable, "", "nothing of the batch is stored: %w", errNoIntent)
		case isOtherTerm(err): // the new term is known now
			continue
		}
		bs.partitions.log.Warn("a batch put is held up", "error", err)
		select {
		case <-bs.partitions.life.Done():
			return undone("the node is shutting down: the jobs will be stored when it is back")
		case <-time.After(insistEvery):
		}
	}
}

// undone returns the error of a batch that is decided and will be completed by others.
func undone(why string) error {
	err := carillon.Errorf(carillon.Unavailable, "", "%s", why)
	err.Unknown = true
	return err
}

// goOn looks, once in each term, for batches that an earlier owner left unfinished, and completes them in the
// background.
func (p *partitionRunner) goOn() {
	if !p.unfinished {
		return
	}
	p.unfinished = false
	term := p.own.term
	p.e.batches.run(func() {
		// Its only errors are that the engine stops, or that the term is over.
		_ = p.e.batches.insist(func() error { return p.rollForward(term) })
	})
}

// rollForward completes the batches whose intents the partition holds.
func (p *partitionRunner) rollForward(term store.Term) error {
	shard := p.e.reader(p)
	for after := ""; ; {
		records, err := shard.MetaRecords(context.Background(),
			store.MetaQuery{Kind: store.KindIntent, After: after, Limit: 1})
		if err != nil || len(records) == 0 {
			return err
		}
		id := partition.IntentID(records[0].Key)
		if busy := p.e.batches.begin(id); busy != nil {
			select {
			case <-busy: // then look at it again
				continue
			case <-p.e.life.Done():
				return nil
			}
		}
		err = p.seeThrough(shard, id, term)
		p.e.batches.finish(id)
		if err != nil {
			return err
		}
		after = partition.IntentPrefix(id) + "\xff"
	}
}

// seeThrough completes a decided batch. If its intent has gone meanwhile, somebody else has completed it.
func (p *partitionRunner) seeThrough(shard store.Shard, id string, term store.Term) error {
	q := store.MetaQuery{Kind: store.KindIntent, Prefix: partition.IntentPrefix(id),
		Limit: carillon.MaxBatch + 1}
	records, err := shard.MetaRecords(context.Background(), q)
	if err != nil || len(records) == 0 {
		return err
	}
	reqs, err := partition.ReadIntents(records)
	if err != nil {
		p.e.log.Error("the intent of a batch cannot be read; its jobs are not stored", "partition", p.number,
			"batch", id, "error", err)
		return nil
	}
	b := p.e.batches.newBatch(id, reqs)
	b.coordinator, b.term = p, term
	b.late.Store(true)
	if b.apply() == nil {
		b.clean()
	}
	if b.deposed() {
		return errDeposed
	}
	return nil
}
