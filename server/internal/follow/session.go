package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// Source is what a node has to copy.
type Source struct {
	Tap    *Tap
	Store  store.Store
	Serves func() []store.Holding // its partitions, to which all is written through the tap
}

const (
	// copiesAtOnce is how many partitions are read at the same time.
	copiesAtOnce = 4
	// lookEvery is how often it is checked whether the node owns what it copies. The end of the copy does
	// not rest on it.
	lookEvery = 500 * time.Millisecond
)

// session copies partitions of a node, and follows them.
type session struct {
	of    Source
	log   *changeLog
	life  context.Context // ends with the session
	fail  context.CancelCauseFunc
	tasks sync.WaitGroup
	slots chan struct{} // one for each partition that is read

	sending sync.Mutex
	out     func(*peerv1.FollowResponse) error

	mu     sync.Mutex
	copies map[int]*partitionCopy

	stop stop
}

// partitionCopy is a partition that is copied, under one term.
type partitionCopy struct {
	partition int
	term      store.Term
	keepsRuns bool          // no finished runs are removed while it is followed
	rung      chan struct{} // there are changes to send
	lost      context.CancelFunc

	mu     sync.Mutex // held while something of it is sent, so that its changes keep their order
	copied bool       // all contents have been sent
	gone   bool       // it is lost: nothing more is sent
}

// begin makes a session, which sends by out. There is one at a time. The caller ends it.
func begin(ctx context.Context, of Source, out func(*peerv1.FollowResponse) error) (*session, error) {
	s := &session{of: of, out: out, copies: map[int]*partitionCopy{}, slots: make(chan struct{}, copiesAtOnce)}
	s.log = newChangeLog(s.ring)
	if err := of.Tap.follow(ctx, s.log); err != nil {
		return nil, err
	}
	s.life, s.fail = context.WithCancelCause(ctx)
	s.stop = stop{of: of, fail: s.fail}
	s.tasks.Go(s.look)
	return s, nil
}

// end ends the session. What it holds goes on, unless it has moved.
func (s *session) end() {
	s.fail(nil)
	s.tasks.Wait()
	s.stop.release()
	s.of.Tap.unfollow()
}

// send sends a response.
func (s *session) send(r *peerv1.FollowResponse) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if err := s.out(r); err != nil {
		s.fail(err)
		return err
	}
	return nil
}

// ring wakes the copy of a partition. The tap calls it, and has its lock meanwhile.
func (s *session) ring(partition int) {
	s.mu.Lock()
	c := s.copies[partition]
	s.mu.Unlock()
	if c == nil {
		return
	}
	select {
	case c.rung <- struct{}{}:
	default:
	}
}

// head tells what there is to copy.
func (s *session) head(ctx context.Context) (*peerv1.FollowHead, error) {
	if err := transfer.Usable(ctx, s.of.Store); err != nil {
		return nil, err
	}
	epoch, err := transfer.LastEpoch(ctx, s.of.Store)
	if err != nil {
		return nil, err
	}
	m := s.of.Store.Meta()
	h := &peerv1.FollowHead{Format: uint32(m.Format), Partitions: uint32(m.Partitions), MacKey: m.MACKey,
		Epoch: epoch}
	for _, held := range s.of.Serves() {
		h.Owned = append(h.Owned, uint32(held.Partition))
	}
	return h, nil
}

// held returns the terms under which the node owns partitions.
func (s *session) held() map[int]store.Term {
	out := map[int]store.Term{}
	for _, h := range s.of.Serves() {
		out[h.Partition] = h.Term
	}
	return out
}

// copy begins to copy partitions. Those that the node does not own are lost at once.
func (s *session) copy(r *peerv1.FollowCopy) error {
	held := s.held()
	for _, number := range r.GetPartitions() {
		p := int(number)
		if p >= s.of.Store.Meta().Partitions {
			return fmt.Errorf("copy.partitions: there is no partition %d", p)
		}
		term, owns := held[p]
		if !owns {
			if err := s.send(lost(p)); err != nil {
				return err
			}
			continue
		}
		life, cancel := context.WithCancel(s.life)
		c := &partitionCopy{partition: p, term: term, keepsRuns: r.GetKeepRuns(), rung: make(chan struct{}, 1),
			lost: cancel}
		s.mu.Lock()
		twice := s.copies[p] != nil
		if !twice {
			s.copies[p] = c
		}
		s.mu.Unlock()
		if twice {
			cancel()
			return fmt.Errorf("copy.partitions: partition %d is copied already", p)
		}
		s.tasks.Go(func() {
			defer cancel()
			if err := s.follow(life, c); err != nil && life.Err() == nil && !errors.Is(err, errGone) {
				s.fail(fmt.Errorf("copy partition %d: %w", p, err))
			}
		})
	}
	return nil
}

func lost(partition int) *peerv1.FollowResponse {
	return &peerv1.FollowResponse{What: &peerv1.FollowResponse_Lost{
		Lost: &peerv1.FollowLost{Partition: uint32(partition)}}}
}

// follow sends what a partition holds, and then its changes, until it is lost.
func (s *session) follow(ctx context.Context, c *partitionCopy) error {
	if err := s.contents(ctx, c); err != nil {
		return err
	}
	for {
		select {
		case <-c.rung:
		case <-ctx.Done():
			return ctx.Err()
		}
		c.mu.Lock()
		err := s.flush(c)
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// contents sends what a partition holds. Each page is sent before the changes that came while it was read:
// see the doc of the package.
func (s *session) contents(ctx context.Context, c *partitionCopy) error {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.of.Tap.set(ctx, c.partition, copied); err != nil {
		return err
	}
	shard, err := s.of.Store.Shard(c.partition, c.term)
	if err != nil {
		return err
	}
	err = transfer.Contents(ctx, shard, func(b *store.Batch) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := s.sendBatch(c, codec.AppendBatch(nil, b), false); err != nil {
			return err
		}
		return s.flush(c)
	})
	if err != nil {
		return err
	}
	if !c.keepsRuns {
		if err := s.of.Tap.set(ctx, c.partition, followed); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := s.flush(c); err != nil {
		return err
	}
	c.copied = true
	return s.send(&peerv1.FollowResponse{What: &peerv1.FollowResponse_Copied{
		Copied: &peerv1.FollowCopied{Partition: uint32(c.partition)}}})
}

// flush sends the changes of a partition that have not been sent. The caller holds c.mu.
func (s *session) flush(c *partitionCopy) error {
	if c.gone {
		return errGone
	}
	changes, err := s.log.take(c.partition)
	if err != nil {
		s.fail(err)
		return err
	}
	for _, text := range changes {
		if err := s.sendBatch(c, text, true); err != nil {
			return err
		}
	}
	return nil
}

// errGone: the partition is lost. Its context has ended, or will soon.
var errGone = errors.New("the partition is lost")

// sendBatch sends a batch of a partition. The caller holds c.mu.
func (s *session) sendBatch(c *partitionCopy, text []byte, change bool) error {
	if c.gone {
		return errGone
	}
	return s.send(&peerv1.FollowResponse{What: &peerv1.FollowResponse_Batch{
		Batch: &peerv1.FollowBatch{Partition: uint32(c.partition), Batch: text, Change: change}}})
}

// look notices partitions that the node has lost.
func (s *session) look() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.life.Done():
			return
		}
		if s.forget(s.held()) != nil {
			return // the session ends
		}
	}
}

// forget ends the copies of partitions that are not held under their terms any more.
func (s *session) forget(held map[int]store.Term) error {
	for _, c := range s.all() {
		if held[c.partition] == c.term && !s.of.Tap.breaks(c.partition) {
			continue
		}
		c.lost() // from here on the copy does not set the tap
		if err := s.of.Tap.set(s.life, c.partition, passed); err != nil {
			return err
		}
		c.mu.Lock()
		c.gone = true
		s.mu.Lock()
		delete(s.copies, c.partition)
		s.mu.Unlock()
		s.log.forget(c.partition)
		err := s.send(lost(c.partition))
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// all returns the copies, by partition.
func (s *session) all() []*partitionCopy {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*partitionCopy
	for _, p := range slices.Sorted(maps.Keys(s.copies)) {
		out = append(out, s.copies[p])
	}
	return out
}

// hold stops the node for a moment, and sends all changes that are durable.
func (s *session) hold(ctx context.Context, settle bool) error {
	if err := s.stop.begin(ctx, settle); err != nil {
		return err
	}
	for _, c := range s.all() {
		c.mu.Lock()
		err := s.flush(c)
		c.mu.Unlock()
		if err != nil && !errors.Is(err, errGone) {
			return err
		}
	}
	return nil
}

// check returns what the copied partitions hold that the node has owned since their copies began.
func (s *session) check(ctx context.Context, digest bool) (*peerv1.FollowChecked, error) {
	if err := s.stop.extend(); err != nil {
		return nil, err
	}
	owners, err := s.of.Store.Leaser().Owners(ctx)
	if err != nil {
		return nil, fmt.Errorf("the owners of partitions: %w", err)
	}
	out := &peerv1.FollowChecked{}
	stored, held := map[int]store.Term{}, s.held()
	for _, o := range owners {
		stored[o.Partition] = o.Term
		out.Epoch = max(out.Epoch, o.Term.Epoch)
	}
	for p, term := range held {
		if stored[p] != term {
			delete(held, p)
		}
	}
	if err := s.forget(held); err != nil {
		return nil, err
	}
	var mu sync.Mutex // of out
	sums, ctx := errgroup.WithContext(ctx)
	sums.SetLimit(copiesAtOnce)
	var checked []*partitionCopy
	for _, c := range s.all() {
		if !c.whole() {
			continue
		}
		checked = append(checked, c)
		sums.Go(func() error {
			sum := &peerv1.FollowSum{Partition: uint32(c.partition)}
			if digest {
				shard, err := s.of.Store.Shard(c.partition, c.term)
				if err != nil {
					return err
				}
				r, err := transfer.SumUp(ctx, c.partition, shard)
				if err != nil {
					return fmt.Errorf("sum up partition %d: %w", c.partition, err)
				}
				sum.Records, sum.Runs, sum.Meta, sum.Digest = r.Records, r.Runs, r.Meta, r.Digest.String()
			}
			mu.Lock()
			defer mu.Unlock()
			out.Sums = append(out.Sums, sum)
			return nil
		})
	}
	if err := sums.Wait(); err != nil {
		return nil, err
	}
	s.stop.check(checked)
	return out, nil
}

// whole reports whether all of the partition has been sent.
func (c *partitionCopy) whole() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.copied
}
