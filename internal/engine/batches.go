package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// PutJobs stores all jobs or none; see [carillon.Jobs] and docs/decisions/0022.
func (e *Engine) PutJobs(ctx context.Context, jobs []carillon.Job) ([]carillon.Put, error) {
	if len(jobs) > carillon.MaxBatch {
		return nil, carillon.Errorf(carillon.InvalidArgument, "jobs", "%d jobs are more than %d in one batch", len(jobs), carillon.MaxBatch)
	}
	reqs, err := e.requests(ctx, jobs)
	if err != nil || len(reqs) == 0 {
		return nil, err
	}
	warnings, err := e.link(ctx, reqs, true)
	if err != nil {
		return nil, err
	}
	puts, err := e.putBatch(ctx, reqs)
	if err != nil {
		return nil, err
	}
	for i := range puts {
		puts[i].Warnings = append(puts[i].Warnings, warnings[i]...)
	}
	e.scheduled(len(reqs))
	return puts, nil
}

// putBatch stores jobs in the cheapest way that stores all or none.
func (e *Engine) putBatch(ctx context.Context, reqs []partition.PutRequest) ([]carillon.Put, error) {
	parts := e.byPartition(reqs)
	if len(parts) == 1 {
		return e.putTogether(ctx, reqs)
	}
	if l := parts.lane(); l != nil {
		puts, err := l.putJoint(ctx, reqs, parts)
		if !errors.Is(err, errApart) {
			return puts, err
		}
	}
	return e.putAcross(ctx, reqs)
}

// requests checks all that can be wrong with the jobs of a batch, as of now, so that storing them cannot fail.
func (e *Engine) requests(ctx context.Context, jobs []carillon.Job) ([]partition.PutRequest, error) {
	reqs := make([]partition.PutRequest, len(jobs))
	seen := make(map[carillon.Key]int, len(jobs))
	at := e.now()
	for i := range jobs {
		req, err := e.request(jobs[i], carillon.PutOptions{})
		if err == nil {
			err = e.plannable(ctx, req.Job, at)
		}
		if err != nil {
			return nil, inBatch(i, err)
		}
		if first, twice := seen[req.Job.Key()]; twice {
			return nil, carillon.Errorf(carillon.InvalidArgument, fmt.Sprintf("jobs[%d].name", i),
				"the same name as jobs[%d]: each name may stand in a batch once", first)
		}
		seen[req.Job.Key()] = i
		req.At, req.Options = at, carillon.PutOptions{}
		reqs[i] = req
	}
	return reqs, nil
}

// plannable reports why a job of a batch could never run. One that is there and keeps its times need not be able to.
func (e *Engine) plannable(ctx context.Context, j *carillon.Job, at int64) error {
	never := partition.Plannable(j, at)
	if never == nil {
		return nil
	}
	keeps, err := ask(ctx, e.partitionOf(j.Key()), jobCall(j.Key()), func(p *owned, _ int64) (bool, error) { return p.m.Keeps(j), nil })
	switch {
	case err != nil:
		return certain(err)
	case !keeps:
		return never
	}
	return nil
}

// inBatch names the job of a batch that an error is about.
func inBatch(i int, err error) error {
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok {
		return fmt.Errorf("jobs[%d]: %w", i, err)
	}
	return carillon.WithField(err, fmt.Sprintf("jobs[%d].%s", i, e.Field))
}

// byPart is which requests of a batch, by index, fall to which partition.
type byPart map[*owned][]int

func (e *Engine) byPartition(reqs []partition.PutRequest) byPart {
	parts := byPart{}
	for i := range reqs {
		p := e.partitionOf(reqs[i].Job.Key())
		parts[p] = append(parts[p], i)
	}
	return parts
}

// putTogether stores jobs of one partition in one store batch.
func (e *Engine) putTogether(ctx context.Context, reqs []partition.PutRequest) ([]carillon.Put, error) {
	c := call{pending: true}
	for i := range reqs {
		c.refs = append(c.refs, store.Ref{Key: reqs[i].Job.Key()})
	}
	return ask(ctx, e.partitionOf(reqs[0].Job.Key()), c, func(p *owned, now int64) ([]carillon.Put, error) {
		puts, bad, err := p.m.PutAll(now, reqs)
		if err != nil {
			return nil, inBatch(bad, err)
		}
		return puts, nil
	})
}

// batches are the batch puts that this node sees through.
type batches struct {
	mu    sync.Mutex
	live  map[string]chan struct{} // by id; closed when nobody is at it any more
	work  sync.WaitGroup
	ended bool
}

// run runs f in the background, unless the engine has ended.
func (b *batches) run(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return false
	}
	b.work.Go(f)
	return true
}

// end waits for what runs in the background; e.stop is closed.
func (b *batches) end() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.work.Wait()
}

// begin makes the caller the only one who sees to a batch; if somebody else does, it returns a channel that is closed when
// he has ended.
func (b *batches) begin(id string) (busy <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if other, here := b.live[id]; here {
		return other
	}
	if b.live == nil {
		b.live = map[string]chan struct{}{}
	}
	b.live[id] = make(chan struct{})
	return nil
}

func (b *batches) finish(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.live[id])
	delete(b.live, id)
}

// batch is a batch put on its way.
type batch struct {
	e           *Engine
	id          string
	coordinator *owned // of the first job; it holds the intent
	byPart      byPart
	puts        []carillon.Put

	turn   turn // guards the rest; a lock would be held while the store is asked
	reqs   []partition.PutRequest
	late   bool  // its caller has gone
	linked int64 // when the edges were last registered
}

// turn lets one at a time go on. Unlike a lock it may be kept across a wait: in a bubble, whoever waits for it waits like for
// anything else.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take() { t <- struct{}{} }
func (t turn) give() { <-t }

// putAcross stores jobs of several partitions. The background goes on when the caller's ctx has ended.
func (e *Engine) putAcross(ctx context.Context, reqs []partition.PutRequest) ([]carillon.Put, error) {
	id, err := ulid.New(ulid.Timestamp(e.cfg.Now()), e.cfg.Random)
	if err != nil {
		return nil, fmt.Errorf("random bytes for a batch: %w", err)
	}
	b := &batch{e: e, id: id.String(), turn: newTurn(), coordinator: e.partitionOf(reqs[0].Job.Key()), reqs: reqs,
		byPart: e.byPartition(reqs), linked: e.now(), puts: make([]carillon.Put, len(reqs))}
	done := make(chan error, 1)
	if !e.batches.run(func() { b.put(done) }) {
		return nil, errStopping()
	}
	select {
	case err := <-done:
		return b.puts, err
	case <-ctx.Done():
		b.turn.take()
		b.late = true
		b.turn.give()
		return nil, ended(ctx)
	}
}

// put decides the batch and sees it through.
func (b *batch) put(done chan<- error) {
	b.e.batches.begin(b.id) // a new id: nobody is at it
	defer b.e.batches.finish(b.id)
	if err := b.write(partition.Intents(b.id, b.reqs[0].At, b.reqs)); err != nil {
		done <- err // if it is unknown whether it was written, the next owner of the coordinator finds out
		return
	}
	if !b.apply() {
		err := carillon.Errorf(carillon.Unavailable, "", "the node is shutting down: the jobs will be stored when it is back")
		err.Unknown = true
		done <- err
		return
	}
	done <- nil
	b.clean()
}

// write has the coordinator write small records.
func (b *batch) write(small []store.Small) error {
	_, err := ask(context.Background(), b.coordinator, call{}, func(p *owned, _ int64) (struct{}, error) {
		p.m.Write(small...)
		return struct{}{}, nil
	})
	return err
}

// apply stores the jobs, each partition's in one store batch, trying until all have; false if the engine ends first.
func (b *batch) apply() bool {
	var all sync.WaitGroup
	results := make(chan bool, len(b.byPart))
	for p, indices := range b.byPart {
		all.Go(func() { results <- b.e.insist(func() error { return b.applyIn(p, indices) }) })
	}
	all.Wait()
	for range b.byPart {
		if !<-results {
			return false
		}
	}
	return true
}

// linkAgain is when edges are registered again for a batch that takes long, so that they are not taken for forgotten.
const linkAgain = 20 * time.Second

func (b *batch) applyIn(p *owned, indices []int) error {
	b.turn.take()
	share := partition.Share{Batch: b.id, Coordinator: b.coordinator.number, Late: b.late}
	if b.e.now()-b.linked > int64(linkAgain) {
		if err := b.link(); err != nil {
			b.turn.give()
			return err
		}
	}
	for _, i := range indices {
		share.Reqs = append(share.Reqs, b.reqs[i])
	}
	b.turn.give()
	_, err := b.e.applyShare(context.Background(), p, &share, func(puts []carillon.Put) {
		for k := range puts { // none if an earlier try has stored them, whose answer was lost: what it was is here
			b.puts[indices[k]] = puts[k]
		}
	})
	return err
}

// applyShare has a partition store its share of a batch. stored is told, on the goroutine of the partition's lane and before
// they are durable, what the puts came to.
func (e *Engine) applyShare(ctx context.Context, p *owned, s *partition.Share, stored func([]carillon.Put)) (struct{}, error) {
	c := call{pending: true}
	for i := range s.Reqs {
		c.refs = append(c.refs, store.Ref{Key: s.Reqs[i].Job.Key()})
	}
	return ask(ctx, p, c, func(p *owned, now int64) (struct{}, error) {
		puts, err := p.m.ApplyShare(now, s)
		if err != nil {
			p.e.log.Error("a job of a decided batch could not be stored", "batch", s.Batch, "error", err)
		}
		stored(puts)
		return struct{}{}, nil
	})
}

// link registers the edges of the batch's jobs.
func (b *batch) link() error {
	ctx, cancel := context.WithTimeout(context.Background(), b.e.cfg.LeaseTTL)
	defer cancel()
	_, err := b.e.link(ctx, b.reqs, true)
	if k := carillon.KindOf(err); err != nil && (k == carillon.Unavailable || k == carillon.DeadlineExceeded) {
		return err
	}
	if err != nil { // too many wait; the batch is decided all the same
		b.e.log.Error("jobs of a decided batch are not told of successes", "batch", b.id, "error", err)
	}
	b.linked = b.e.now()
	return nil
}

// clean removes the intent and then, once that is durable, the marks. Marks that stay because a partition fails are removed
// when it is claimed again.
func (b *batch) clean() {
	if !b.e.insist(func() error { return b.write(partition.NoIntents(b.id, len(b.reqs))) }) {
		return
	}
	for p := range b.byPart {
		p.unmark(b.id)
	}
}

// unmark forgets, if the partition serves, that a batch was applied.
func (p *owned) unmark(id string) {
	c := call{fail: func(error) {}, do: func(p *owned, _ int64) { p.m.Unmark(id) }}
	p.box.put(func(m *mail) { m.calls = append(m.calls, c) })
}

// insistEvery is how long to wait before trying again what must be done.
const insistEvery = 500 * time.Millisecond

// insist repeats f until it succeeds; false if the engine ends first.
func (e *Engine) insist(f func() error) bool {
	for {
		err := f()
		if err == nil {
			return true
		}
		e.log.Warn("a batch put is held up", "error", err)
		select {
		case <-e.stop:
			return false
		case <-time.After(insistEvery):
		}
	}
}

// goOn looks, once in each term, for batches that an earlier owner left unfinished.
func (p *owned) goOn() {
	if !p.unfinished {
		return
	}
	p.unfinished = false
	marks := p.m.Applied()
	p.e.batches.run(func() {
		p.e.insist(p.rollForward)
		if len(marks) > 0 {
			p.e.insist(func() error { return p.e.sweepMarks(p, marks) })
		}
	})
}

// rollForward sees the batches through of which the partition holds the intent.
func (p *owned) rollForward() error {
	shard, err := p.e.reader(p)
	if err != nil {
		return err
	}
	for after := ""; ; {
		records, err := shard.Small(p.ctx, store.SmallQuery{Kind: partition.SmallIntent, After: after, Limit: 1})
		if err != nil || len(records) == 0 {
			return err
		}
		id := partition.IntentID(records[0].Key)
		if busy := p.e.batches.begin(id); busy != nil {
			select {
			case <-busy: // and then it is looked at again
				continue
			case <-p.e.stop:
				return nil
			}
		}
		err = p.seeThrough(shard, id)
		p.e.batches.finish(id)
		if err != nil {
			return err
		}
		after = partition.IntentPrefix(id) + "\xff"
	}
}

// seeThrough stores the jobs of a batch that is decided. If its intent has gone meanwhile, so has the need.
func (p *owned) seeThrough(shard store.Shard, id string) error {
	q := store.SmallQuery{Kind: partition.SmallIntent, Prefix: partition.IntentPrefix(id), Limit: carillon.MaxBatch + 1}
	records, err := shard.Small(p.ctx, q)
	if err != nil || len(records) == 0 {
		return err
	}
	reqs, err := partition.ReadIntents(records)
	if err != nil {
		p.e.log.Error("the intent of a batch cannot be read; its jobs are not stored", "partition", p.number, "batch", id, "error", err)
		return nil
	}
	b := &batch{e: p.e, id: id, turn: newTurn(), coordinator: p, late: true, reqs: reqs, byPart: p.e.byPartition(reqs),
		puts: make([]carillon.Put, len(reqs))}
	if b.apply() {
		b.clean()
	}
	return nil
}

// sweepMarks removes the marks of batches whose intents are gone: a crash came between the two.
func (e *Engine) sweepMarks(p *owned, marks map[string]int) error {
	for id, coordinator := range marks {
		if coordinator >= len(e.parts) {
			continue
		}
		shard, err := e.reader(e.parts[coordinator])
		if err != nil {
			return err
		}
		left, err := shard.Small(p.ctx, store.SmallQuery{Kind: partition.SmallIntent, Prefix: partition.IntentPrefix(id), Limit: 1})
		if err != nil {
			return err
		}
		if len(left) == 0 {
			p.unmark(id)
		}
	}
	return nil
}

// small is what a partition keeps in small records and has in memory.
type small struct {
	edges, outbox, applied []store.Small
}

// loadSmall reads small records at takeover.
func (p *owned) loadSmall(shard store.Shard) (s small, err error) {
	if s.edges, err = allSmall(p.ctx, shard, partition.SmallEdge); err != nil {
		return s, err
	}
	if s.outbox, err = allSmall(p.ctx, shard, partition.SmallOutbox); err != nil {
		return s, err
	}
	s.applied, err = allSmall(p.ctx, shard, partition.SmallApplied)
	return s, err
}
