package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// faults is what is wrong with a node at the moment. The nemesis changes it.
type faults struct {
	mu     sync.Mutex
	faults []Fault
}

func (w *faults) add(f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, f)
}

func (w *faults) remove(f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	same := func(x Fault) bool {
		return x.Kind == f.Kind && x.At == f.At && x.For == f.For && x.Delay == f.Delay && x.Share == f.Share
	}
	if i := slices.IndexFunc(w.faults, same); i >= 0 {
		w.faults = slices.Delete(w.faults, i, i+1)
	}
}

// worst is the longest delay and the greatest share of the faults of a kind.
func (w *faults) worst(kind FaultKind) (delay time.Duration, share float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		if f.Kind == kind {
			delay, share = max(delay, f.Delay), max(share, f.Share)
		}
	}
	return delay, share
}

// unreached reports whether the node does not reach the store.
func (w *faults) unreached() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.faults, func(f Fault) bool { return f.Kind == CutStore })
}

// What a node is barred from: each has a range of the fault's share, and in the middle it is both.
const (
	claims = 2.0 / 3
	writes = -1.0 / 3
)

// barred reports whether the node may not do something.
func (w *faults) barred(what float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.faults, func(f Fault) bool {
		return f.Kind == Barred && (what > 0 && f.Share < what || what < 0 && f.Share > -what)
	})
}

// clock is how far the node's clock is wrong: the sum of what is wrong with it.
func (w *faults) clock() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var sum time.Duration
	for _, f := range w.faults {
		if f.Kind == Clock {
			sum += f.Delay
		}
	}
	return sum
}

// faultyStore is the store as one life of a node sees it. When the node is killed it is cut off: a write on
// its way is lost, or lands, perhaps after somebody else has taken over; no later one is sent.
type faultyStore struct {
	store.Store
	chance  chance
	faults  *faults
	gate    *gate
	node    int
	members bool            // the store is that of a cluster
	flying  *sync.WaitGroup // writes on their way

	mu   sync.Mutex
	dead bool
}

var (
	errDead    = errors.New("sim: the node is dead")
	errRefused = errors.New("sim: the store refuses")
)

func (s *faultyStore) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
}

func (s *faultyStore) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// pass is an error if a call of the kind does not reach the store, and takes its time if nothing does.
func (s *faultyStore) pass(ctx context.Context, kind FaultKind, what string, p int) error {
	s.gate.wait()
	if s.over() {
		return errDead
	}
	if s.faults.unreached() {
		hang(ctx, s.actor(p), between(s.chance.now("cut "+what, uint64(s.node), uint64(p)), 0, 2*time.Second))
		s.gate.wait()
		return errRefused
	}
	if _, share := s.faults.worst(kind); share > 0 &&
		s.chance.now(what, uint64(s.node), uint64(p)).Float64() < share {
		return errRefused
	}
	return nil
}

func (s *faultyStore) actor(p int) int { return actorStore + s.node*maxPartitions + p }

// Shard is for [store.Store].
func (s *faultyStore) Shard(p int, term store.Term) (store.Shard, error) {
	sh, err := s.Store.Shard(p, term)
	if err != nil {
		return nil, err
	}
	if s.over() {
		return nil, errDead
	}
	return &faultyShard{sh, s, p}, nil
}

// Leaser is for [store.Store].
func (s *faultyStore) Leaser() store.Leaser { return &faultyLeaser{s.Store.Leaser(), s} }

type faultyShard struct {
	store.Shard
	store *faultyStore
	p     int
}

// Apply is for [store.Shard].
func (s *faultyShard) Apply(ctx context.Context, b *store.Batch) error {
	return s.store.write(s.p, func() error { return s.Shard.Apply(ctx, b) })
}

// ApplyGroup is for [store.Grouper], if the store below is one. What goes wrong with a group goes wrong with
// all of it.
func (s *faultyStore) ApplyGroup(ctx context.Context, writes []store.Write) error {
	below := make([]store.Write, len(writes))
	for i, w := range writes {
		below[i] = store.Write{Shard: w.Shard.(*faultyShard).Shard, Batch: w.Batch}
	}
	return s.write(writes[0].Shard.(*faultyShard).p,
		func() error { return s.Store.(store.Grouper).ApplyGroup(ctx, below) })
}

// ReadAll is for [store.Reader], if the store below is one. It takes a while, before and after the store is
// asked: meanwhile others write. If one partition cannot be read, none is.
func (s *faultyStore) ReadAll(ctx context.Context, asked []store.Asked) ([][]store.Record, error) {
	first := asked[0].Shard.(*faultyShard).p
	actor, luck := actorReader+s.node*maxPartitions+first, s.chance.now("read all",
		uint64(s.node), uint64(first))
	pause(actor, between(luck, 0, 2*time.Millisecond))
	defer func() { pause(actor, between(luck, 0, 2*time.Millisecond)) }()
	below := make([]store.Asked, len(asked))
	for i, a := range asked {
		of := a.Shard.(*faultyShard)
		if err := s.pass(ctx, ReadsFail, "read", of.p); err != nil {
			return nil, err
		}
		below[i] = store.Asked{Shard: of.Shard, Refs: a.Refs}
	}
	return s.Store.(store.Reader).ReadAll(ctx, below)
}

// write does a write of a partition, and perhaps of others with it, as far as the faults lets it.
func (s *faultyStore) write(p int, land func() error) error {
	s.gate.wait()
	if s.over() {
		return errDead
	}
	if s.faults.barred(writes) {
		return errRefused
	}
	s.flying.Add(1)
	defer s.flying.Done()
	luck := s.chance.now("write", uint64(s.node), uint64(p))
	slow, _ := s.faults.worst(SlowStore)
	_, refuse := s.faults.worst(StoreRefuses)
	_, lose := s.faults.worst(LostAcks)
	pause(s.actor(p), 50*time.Microsecond+between(luck, 0, time.Millisecond+slow))
	switch {
	case s.over():
		return s.late(p, land, luck.IntN(3), between(luck, 0, 5*time.Second))
	case s.faults.unreached():
		return s.cut(p, land, luck)
	}
	fate := luck.Float64()
	switch {
	case luck.Float64() < refuse:
		return errRefused
	case fate < lose/2: // it is the write that was lost, but who can tell
		return fmt.Errorf("%w: the write was lost", store.ErrUnknown)
	}
	err := land()
	s.gate.wait() // its answer waits for the node
	if s.faults.unreached() {
		pause(s.actor(p), between(luck, 0, 2*time.Second))
		s.gate.wait()
	}
	if err != nil {
		return err
	}
	if fate < lose || s.over() || s.faults.unreached() {
		return fmt.Errorf("%w: the acknowledgement was lost", store.ErrUnknown)
	}
	return nil
}

// cut is what becomes of a write of a node that does not reach the store: it fails after a while, and perhaps
// it lands all the same when the network is there again, long after the node has given it up.
func (s *faultyStore) cut(p int, land func() error, luck *rand.Rand) error {
	err := s.late(p, land, 2*luck.IntN(2), between(luck, 0, 8*time.Second))
	pause(s.actor(p), between(luck, 0, 2*time.Second))
	s.gate.wait()
	return err
}

// late is what becomes of a write of a node that died meanwhile.
func (s *faultyStore) late(p int, land func() error, fate int, after time.Duration) error {
	lost := fmt.Errorf("%w: %w", store.ErrUnknown, errDead)
	if fate == 0 {
		return lost
	}
	if fate == 1 {
		_ = land() // nobody is there to hear the answer
		return lost
	}
	s.flying.Go(func() {
		pause(s.actor(p), after)
		for s.faults.unreached() && !s.over() {
			pause(s.actor(p), 300*time.Millisecond)
		}
		_ = land()
	})
	return lost
}

// read asks the store something, if it answers.
func read[T any](ctx context.Context, s *faultyShard, f func() (T, error)) (T, error) {
	if err := s.store.pass(ctx, ReadsFail, "read", s.p); err != nil {
		var none T
		return none, err
	}
	return f()
}

// Read is for [store.Shard].
func (s *faultyShard) Read(ctx context.Context, refs []store.Ref) ([]store.Record, error) {
	return read(ctx, s, func() ([]store.Record, error) { return s.Shard.Read(ctx, refs) })
}

// List is for [store.Shard].
func (s *faultyShard) List(ctx context.Context, q store.ListQuery) ([]store.Record, error) {
	return read(ctx, s, func() ([]store.Record, error) { return s.Shard.List(ctx, q) })
}

// Due is for [store.Shard].
func (s *faultyShard) Due(ctx context.Context, q store.DueQuery) ([]store.Record, error) {
	return read(ctx, s, func() ([]store.Record, error) { return s.Shard.Due(ctx, q) })
}

// Staged is for [store.Shard].
func (s *faultyShard) Staged(ctx context.Context, q store.StagedQuery) ([]store.Record, error) {
	return read(ctx, s, func() ([]store.Record, error) { return s.Shard.Staged(ctx, q) })
}

// Live is for [store.Shard].
func (s *faultyShard) Live(ctx context.Context, id store.RunID) (ref store.Ref, ok bool, err error) {
	if err := s.store.pass(ctx, ReadsFail, "read", s.p); err != nil {
		return ref, false, err
	}
	return s.Shard.Live(ctx, id)
}

// Runs is for [store.Shard].
func (s *faultyShard) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	return read(ctx, s, func() ([]store.RunRecord, error) { return s.Shard.Runs(ctx, q) })
}

// MetaRecords is for [store.Shard].
func (s *faultyShard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	return read(ctx, s, func() ([]store.MetaRecord, error) { return s.Shard.MetaRecords(ctx, q) })
}

// faultyLeaser lets calls fail, half of them after they have done their work.
type faultyLeaser struct {
	store.Leaser
	store *faultyStore
}

// ask is how calls begin that are not about one partition: in a cluster each node has its own moment.
func (l *faultyLeaser) ask(ctx context.Context, what string) error {
	if l.store.members {
		l.store.gate.wait()
		pause(actorMember+l.store.node, time.Microsecond)
	}
	if err := l.store.pass(ctx, LeasesFail, what, 0); err != nil {
		return err
	}
	return ctx.Err()
}

// Now is for [store.Leaser].
func (l *faultyLeaser) Now(ctx context.Context) (time.Time, error) {
	if err := l.ask(ctx, "now"); err != nil {
		return time.Time{}, err
	}
	return l.Leaser.Now(ctx)
}

// Join is for [store.Leaser].
func (l *faultyLeaser) Join(ctx context.Context, m store.Member, ttl time.Duration) error {
	if err := l.ask(ctx, "join"); err != nil {
		return err
	}
	return l.Leaser.Join(ctx, m, ttl)
}

// Retire is for [store.Leaser].
func (l *faultyLeaser) Retire(ctx context.Context, m store.Member, ttl time.Duration) error {
	if err := l.ask(ctx, "retire"); err != nil {
		return err
	}
	return l.Leaser.Retire(ctx, m, ttl)
}

// Leave is for [store.Leaser].
func (l *faultyLeaser) Leave(ctx context.Context, id string, nonce uint64) error {
	if err := l.ask(ctx, "leave"); err != nil {
		return err
	}
	return l.Leaser.Leave(ctx, id, nonce)
}

// Members is for [store.Leaser].
func (l *faultyLeaser) Members(ctx context.Context) ([]store.Member, error) {
	if err := l.ask(ctx, "members"); err != nil {
		return nil, err
	}
	return l.Leaser.Members(ctx)
}

// Owners is for [store.Leaser].
func (l *faultyLeaser) Owners(ctx context.Context) ([]store.Owner, error) {
	if err := l.ask(ctx, "owners"); err != nil {
		return nil, err
	}
	return l.Leaser.Owners(ctx)
}

// Claim is for [store.Leaser].
func (l *faultyLeaser) Claim(ctx context.Context, node string, ps []int,
	ttl time.Duration) ([]store.Term, error) {
	pause(l.store.actor(ps[0]), time.Microsecond)
	if l.store.faults.barred(claims) {
		return nil, errRefused
	}
	failed := l.store.pass(ctx, LeasesFail, "claim", ps[0])
	if failed != nil && (l.store.over() || l.store.faults.unreached() ||
		l.store.chance.now("claim lost", uint64(ps[0])).IntN(2) == 0) {
		return nil, failed
	}
	terms, err := l.Leaser.Claim(ctx, node, ps, ttl)
	if failed != nil {
		return nil, failed // its answer was lost
	}
	return terms, err
}

// Renew is for [store.Leaser].
func (l *faultyLeaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) ([]store.Holding, error) {
	if err := l.ask(ctx, "renew"); err != nil {
		return nil, err
	}
	return l.Leaser.Renew(ctx, node, held, ttl)
}

// Release is for [store.Leaser].
func (l *faultyLeaser) Release(ctx context.Context, node string, held []store.Holding) error {
	// its own moment: the store is asked about owners beside it
	pause(l.store.actor(held[0].Partition), time.Microsecond)
	if err := l.store.pass(ctx, LeasesFail, "release", held[0].Partition); err != nil {
		return err
	}
	return l.Leaser.Release(ctx, node, held)
}
