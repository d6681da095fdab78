package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

const (
	// holdWithin is how long a node may hold before it goes on by itself, and sumWithin how long it may
	// while it sums up what it holds.
	holdWithin, sumWithin = 30 * time.Second, 10 * time.Minute
	// marksWithin is how long it may take to remove marks.
	marksWithin = 10 * time.Second
)

// stop is a moment in which a node makes nothing durable. It may end with the move of what the node holds.
//
//	begin, perhaps settled ─> extend, check ─> release: the node goes on
//	                     └──> move ─> release: it ends
//	                            └───> move, undone ─> release: it goes on
type stop struct {
	of   Source
	fail context.CancelCauseFunc // ends the session

	mu      sync.Mutex
	expires *time.Timer      // ends the stop; nil: the node does not hold
	checked []*partitionCopy // since it began
	moved   bool             // partitions have marks, perhaps: the node must not go on
}

// begin has the node make nothing durable until release. If it settles, it hands nothing out from a moment
// before, so that all that it has handed out is durable.
func (s *stop) begin(ctx context.Context, settle bool) error {
	s.mu.Lock()
	if s.expires == nil {
		s.expires = time.AfterFunc(holdWithin, func() {
			s.fail(errors.New("the node was held for too long, and goes on"))
			s.release()
		})
	}
	s.checked = nil
	s.mu.Unlock()
	if settle {
		if err := s.of.Tap.settle(ctx); err != nil {
			return err
		}
	}
	return s.of.Tap.hold(ctx)
}

// errNotHeld: a step that is for nodes that hold alone.
var errNotHeld = errors.New("the node does not hold")

// extend lets the node hold for longer.
func (s *stop) extend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expires == nil || !s.expires.Reset(sumWithin) {
		return errNotHeld
	}
	return nil
}

// check notes which partitions are the node's still.
func (s *stop) check(partitions []*partitionCopy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checked = partitions
}

// move marks the partitions that were checked as moved, each under the term of its copy, or takes the marks
// away. Where it fails it takes them away, too. The node goes on only if it has none for certain.
func (s *stop) move(ctx context.Context, undo bool) error {
	s.mu.Lock()
	held, checked := s.expires != nil, s.checked
	s.moved = s.moved || held && !undo
	s.mu.Unlock()
	if !held {
		return errNotHeld
	}
	if undo {
		return s.unmark(ctx, checked)
	}
	for i, c := range checked {
		if err := s.mark(ctx, c, store.MoveMoved); err != nil {
			return errors.Join(err, s.unmark(ctx, checked[:i+1]))
		}
	}
	return nil
}

// unmark takes marks away. After a batch that was fenced there is none.
func (s *stop) unmark(ctx context.Context, marked []*partitionCopy) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), marksWithin)
	defer cancel()
	for _, c := range slices.Backward(marked) {
		if is := s.mark(ctx, c, ""); store.OutcomeOf(is) != store.Fenced {
			err = errors.Join(err, is)
		}
	}
	if err == nil {
		s.mu.Lock()
		s.moved = false
		s.mu.Unlock()
	}
	return err
}

// mark writes a mark to a partition; empty: none.
func (s *stop) mark(ctx context.Context, c *partitionCopy, value string) error {
	mark := store.MetaRecord{Kind: store.KindMove, Key: store.MoveKey}
	if value != "" {
		mark.Value = []byte(value)
	}
	shard, err := s.of.Store.Shard(c.partition, c.term)
	if err == nil {
		err = shard.Apply(ctx, &store.Batch{MetaRecords: []store.MetaRecord{mark}})
	}
	if err != nil {
		return fmt.Errorf("mark partition %d: %w", c.partition, err)
	}
	return nil
}

// release lets the node go on, or end if it has moved.
func (s *stop) release() {
	s.mu.Lock()
	held, moved := s.expires != nil, s.moved
	if held {
		s.expires.Stop()
		s.expires = nil
	}
	s.mu.Unlock()
	switch {
	case !held:
	case moved:
		s.of.Tap.end(errMoved)
	default:
		s.of.Tap.release()
	}
}

// errMoved is how writes end of a node whose store has moved: its partitions have another owner, so that it
// hands nothing out any more.
var errMoved = fmt.Errorf("%w (%w)", store.ErrMoved, store.ErrFenced)
