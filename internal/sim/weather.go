package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// weather is what is wrong with a node at the moment. The nemesis changes it.
type weather struct {
	mu     sync.Mutex
	faults []Fault
}

func (w *weather) add(f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, f)
}

func (w *weather) remove(f Fault) {
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
func (w *weather) worst(kind FaultKind) (delay time.Duration, share float64) {
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
func (w *weather) unreached() bool {
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
func (w *weather) barred(what float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.faults, func(f Fault) bool {
		return f.Kind == Barred && (what > 0 && f.Share < what || what < 0 && f.Share > -what)
	})
}

// clock is how far the node's clock is wrong: the sum of what is wrong with it.
func (w *weather) clock() time.Duration {
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

// sky is the store as one life of a node sees it. When the node is killed it is cut off: a write on its way is lost, or
// lands, perhaps after somebody else has taken over; no later one is sent.
type sky struct {
	store.Store
	chance  chance
	weather *weather
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

func (s *sky) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
}

func (s *sky) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// pass is an error if a call of the kind does not reach the store, and takes its time if nothing does.
func (s *sky) pass(ctx context.Context, kind FaultKind, what string, p int) error {
	s.gate.wait()
	if s.over() {
		return errDead
	}
	if s.weather.unreached() {
		hang(ctx, s.actor(p), between(s.chance.now("cut "+what, uint64(s.node), uint64(p)), 0, 2*time.Second))
		s.gate.wait()
		return errRefused
	}
	if _, share := s.weather.worst(kind); share > 0 && s.chance.now(what, uint64(s.node), uint64(p)).Float64() < share {
		return errRefused
	}
	return nil
}

func (s *sky) actor(p int) int { return actorStore + s.node*maxPartitions + p }

// Shard is for [store.Store].
func (s *sky) Shard(p int, term store.Term) (store.Shard, error) {
	sh, err := s.Store.Shard(p, term)
	if err != nil {
		return nil, err
	}
	if s.over() {
		return nil, errDead
	}
	return &skyShard{sh, s, p}, nil
}

// Leaser is for [store.Store].
func (s *sky) Leaser() store.Leaser { return &skyLeaser{s.Store.Leaser(), s} }

type skyShard struct {
	store.Shard
	sky *sky
	p   int
}

// Apply is for [store.Shard].
func (s *skyShard) Apply(ctx context.Context, b *store.Batch) error {
	return s.sky.write(s.p, func() error { return s.Shard.Apply(ctx, b) })
}

// ApplyGroup is for [store.Grouper], if the store below is one. What goes wrong with a group goes wrong with all of it.
func (s *sky) ApplyGroup(ctx context.Context, writes []store.Write) error {
	below := make([]store.Write, len(writes))
	for i, w := range writes {
		below[i] = store.Write{Shard: w.Shard.(*skyShard).Shard, Batch: w.Batch}
	}
	return s.write(writes[0].Shard.(*skyShard).p, func() error { return s.Store.(store.Grouper).ApplyGroup(ctx, below) })
}

// ReadAll is for [store.Reader], if the store below is one. It takes a while, before and after the store is asked: meanwhile others
// write. If one partition cannot be read, none is.
func (s *sky) ReadAll(ctx context.Context, asked []store.Asked) ([][]store.Record, error) {
	first := asked[0].Shard.(*skyShard).p
	actor, luck := actorReader+s.node*maxPartitions+first, s.chance.now("read all", uint64(s.node), uint64(first))
	pause(actor, between(luck, 0, 2*time.Millisecond))
	defer func() { pause(actor, between(luck, 0, 2*time.Millisecond)) }()
	below := make([]store.Asked, len(asked))
	for i, a := range asked {
		of := a.Shard.(*skyShard)
		if err := s.pass(ctx, ReadsFail, "read", of.p); err != nil {
			return nil, err
		}
		below[i] = store.Asked{Shard: of.Shard, Refs: a.Refs}
	}
	return s.Store.(store.Reader).ReadAll(ctx, below)
}

// write does a write of a partition, and perhaps of others with it, as far as the weather lets it.
func (s *sky) write(p int, land func() error) error {
	s.gate.wait()
	if s.over() {
		return errDead
	}
	if s.weather.barred(writes) {
		return errRefused
	}
	s.flying.Add(1)
	defer s.flying.Done()
	luck := s.chance.now("write", uint64(s.node), uint64(p))
	slow, _ := s.weather.worst(SlowStore)
	_, refuse := s.weather.worst(StoreRefuses)
	_, lose := s.weather.worst(LostAcks)
	pause(s.actor(p), 50*time.Microsecond+between(luck, 0, time.Millisecond+slow))
	switch {
	case s.over():
		return s.late(p, land, luck.IntN(3), between(luck, 0, 5*time.Second))
	case s.weather.unreached():
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
	if s.weather.unreached() {
		pause(s.actor(p), between(luck, 0, 2*time.Second))
		s.gate.wait()
	}
	if err != nil {
		return err
	}
	if fate < lose || s.over() || s.weather.unreached() {
		return fmt.Errorf("%w: the acknowledgement was lost", store.ErrUnknown)
	}
	return nil
}

// cut is what becomes of a write of a node that does not reach the store: it fails after a while, and perhaps it lands all the same
// when the network is there again, long after the node has given it up.
func (s *sky) cut(p int, land func() error, luck *rand.Rand) error {
	err := s.late(p, land, 2*luck.IntN(2), between(luck, 0, 8*time.Second))
	pause(s.actor(p), between(luck, 0, 2*time.Second))
	s.gate.wait()
	return err
}

// late is what becomes of a write of a node that died meanwhile.
func (s *sky) late(p int, land func() error, fate int, after time.Duration) error {
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
		for s.weather.unreached() && !s.over() {
			pause(s.actor(p), 300*time.Millisecond)
		}
		_ = land()
	})
	return lost
}

// read asks the store something, if it answers.
func read[T any](ctx context.Context, s *skyShard, f func() (T, error)) (T, error) {
	if err := s.sky.pass(ctx, ReadsFail, "read", s.p); err != nil {
		var none T
		return none, err
	}
	return f()
}

// Read is for [store.Shard].
func (s *skyShard) Read(ctx context.Context, refs []store.Ref) ([]store.Record, error) {
	return read(ctx, s, func() ([]store.Record, error) { return s.Shard.Read(ctx, refs) })
}

// List is for [store.Shard].
func (s *skyShard) List(ctx context.Context, q store.ListQuery) ([]store.Record, error) {
	return read(ctx, s, func() ([]store.Record, error) { return s.Shard.List(ctx, q) })
}

// Due is for [store.Shard].
func (s *skyShard) Due(ctx context.Context, q store.DueQuery) ([]store.Record, error) {
	return read(ctx, s, func() ([]store.Record, error) { return s.Shard.Due(ctx, q) })
}

// Staged is for [store.Shard].
func (s *skyShard) Staged(ctx context.Context, q store.StagedQuery) ([]store.Record, error) {
	return read(ctx, s, func() ([]store.Record, error) { return s.Shard.Staged(ctx, q) })
}

// Live is for [store.Shard].
func (s *skyShard) Live(ctx context.Context, id carillon.RunIdentity) (ref store.Ref, ok bool, err error) {
	if err := s.sky.pass(ctx, ReadsFail, "read", s.p); err != nil {
		return ref, false, err
	}
	return s.Shard.Live(ctx, id)
}

// Runs is for [store.Shard].
func (s *skyShard) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	return read(ctx, s, func() ([]store.RunRecord, error) { return s.Shard.Runs(ctx, q) })
}

// Small is for [store.Shard].
func (s *skyShard) Small(ctx context.Context, q store.SmallQuery) ([]store.Small, error) {
	return read(ctx, s, func() ([]store.Small, error) { return s.Shard.Small(ctx, q) })
}

// skyLeaser lets calls fail, half of them after they have done their work.
type skyLeaser struct {
	store.Leaser
	sky *sky
}

// ask is how calls begin that are not about one partition: in a cluster each node has its own moment.
func (l *skyLeaser) ask(ctx context.Context, what string) error {
	if l.sky.members {
		l.sky.gate.wait()
		pause(actorMember+l.sky.node, time.Microsecond)
	}
	if err := l.sky.pass(ctx, LeasesFail, what, 0); err != nil {
		return err
	}
	return ctx.Err()
}

// Now is for [store.Leaser].
func (l *skyLeaser) Now(ctx context.Context) (time.Time, error) {
	if err := l.ask(ctx, "now"); err != nil {
		return time.Time{}, err
	}
	return l.Leaser.Now(ctx)
}

// Join is for [store.Leaser].
func (l *skyLeaser) Join(ctx context.Context, m store.Member, ttl time.Duration) error {
	if err := l.ask(ctx, "join"); err != nil {
		return err
	}
	return l.Leaser.Join(ctx, m, ttl)
}

// Retire is for [store.Leaser].
func (l *skyLeaser) Retire(ctx context.Context, m store.Member, ttl time.Duration) error {
	if err := l.ask(ctx, "retire"); err != nil {
		return err
	}
	return l.Leaser.Retire(ctx, m, ttl)
}

// Leave is for [store.Leaser].
func (l *skyLeaser) Leave(ctx context.Context, id string, nonce uint64) error {
	if err := l.ask(ctx, "leave"); err != nil {
		return err
	}
	return l.Leaser.Leave(ctx, id, nonce)
}

// Members is for [store.Leaser].
func (l *skyLeaser) Members(ctx context.Context) ([]store.Member, error) {
	if err := l.ask(ctx, "members"); err != nil {
		return nil, err
	}
	return l.Leaser.Members(ctx)
}

// Owners is for [store.Leaser].
func (l *skyLeaser) Owners(ctx context.Context) ([]store.Owner, error) {
	if err := l.ask(ctx, "owners"); err != nil {
		return nil, err
	}
	return l.Leaser.Owners(ctx)
}

// Claim is for [store.Leaser].
func (l *skyLeaser) Claim(ctx context.Context, node string, ps []int, ttl time.Duration) ([]store.Term, error) {
	pause(l.sky.actor(ps[0]), time.Microsecond)
	if l.sky.weather.barred(claims) {
		return nil, errRefused
	}
	failed := l.sky.pass(ctx, LeasesFail, "claim", ps[0])
	if failed != nil && (l.sky.over() || l.sky.weather.unreached() || l.sky.chance.now("claim lost", uint64(ps[0])).IntN(2) == 0) {
		return nil, failed
	}
	terms, err := l.Leaser.Claim(ctx, node, ps, ttl)
	if failed != nil {
		return nil, failed // its answer was lost
	}
	return terms, err
}

// Renew is for [store.Leaser].
func (l *skyLeaser) Renew(ctx context.Context, node string, held []store.Holding, ttl time.Duration) ([]store.Holding, error) {
	if err := l.ask(ctx, "renew"); err != nil {
		return nil, err
	}
	return l.Leaser.Renew(ctx, node, held, ttl)
}

// Release is for [store.Leaser].
func (l *skyLeaser) Release(ctx context.Context, node string, held []store.Holding) error {
	pause(l.sky.actor(held[0].Partition), time.Microsecond) // its own moment: the store is asked about owners beside it
	if err := l.sky.pass(ctx, LeasesFail, "release", held[0].Partition); err != nil {
		return err
	}
	return l.Leaser.Release(ctx, node, held)
}
