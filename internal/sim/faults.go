package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/carillonhq/carillon/store"
)

// Weather is how the store behaves at the moment.
type Weather struct {
	Delay   time.Duration // of a write, up to
	Refuse  float64       // share of writes that fail, certainly not applied
	LoseAck float64       // share of writes that are applied and answered with "unknown"
}

// sky is the store as one incarnation of the node sees it. When the node is killed it is cut off: a write on its way is
// applied or not, and no later one is.
type sky struct {
	store.Store
	mu      sync.Mutex
	rng     *rand.Rand
	weather Weather
	dead    bool
}

var errDead = errors.New("sim: the node is dead")

func (s *sky) set(w Weather) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.weather = w
}

func (s *sky) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
}

// draw decides the fate of one write.
func (s *sky) draw() (delay time.Duration, refuse, lose bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delay = 100*time.Microsecond + time.Duration(s.rng.Int64N(int64(s.weather.Delay)+1))
	return delay, s.rng.Float64() < s.weather.Refuse, s.rng.Float64() < s.weather.LoseAck
}

// over reports whether the node is dead; half of the writes that are on their way then still land.
func (s *sky) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead && s.rng.IntN(2) == 0
}

func (s *sky) alive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return errDead
	}
	return nil
}

// Shard is for [store.Store].
func (s *sky) Shard(p int, term store.Term) (store.Shard, error) {
	sh, err := s.Store.Shard(p, term)
	if err != nil {
		return nil, err
	}
	return skyShard{sh, s}, s.alive()
}

type skyShard struct {
	store.Shard
	sky *sky
}

// Apply is for [store.Shard].
func (s skyShard) Apply(ctx context.Context, b *store.Batch) error {
	if err := s.sky.alive(); err != nil {
		return err
	}
	delay, refuse, lose := s.sky.draw()
	time.Sleep(delay)
	switch {
	case s.sky.over():
		return fmt.Errorf("%w: %w", store.ErrUnknown, errDead)
	case refuse:
		return errors.New("sim: the store refuses")
	}
	if err := s.Shard.Apply(ctx, b); err != nil {
		return err
	}
	if lose || s.sky.alive() != nil {
		return fmt.Errorf("%w: the acknowledgement was lost", store.ErrUnknown)
	}
	return nil
}
