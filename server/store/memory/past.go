package memory

import (
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/contents"
	"github.com/carillonhq/carillon/server/store/members"
)

// Past is what a store held at one moment, of all partitions alike: what a standby has received that follows
// asynchronously.
type Past struct {
	partitions []pastPartition
	members    members.Past
}

// pastPartition is one partition's part of it.
type pastPartition struct {
	owner store.Owner
	holds *contents.Partition
}

// Past returns what the store holds now, for [Store.Revert].
func (s *Store) Past() *Past {
	defer s.lock()()
	past := &Past{members: s.members.Past()}
	for _, p := range s.partitions {
		past.partitions = append(past.partitions,
			pastPartition{p.owner, p.holds.Copy()})
	}
	return past
}

// Revert makes the store go back to what it held, as when an asynchronous standby takes the place of a
// primary that has failed: what was acknowledged since is lost, and every term is over. Epochs go on growing,
// as [store.Leaser] demands.
func (s *Store) Revert(past *Past) {
	defer s.lock()()
	s.members.Revert(past.members)
	for i, p := range s.partitions {
		was, epoch := &past.partitions[i], p.owner.Term.Epoch
		p.holds = was.holds.Copy()
		p.owner = was.owner
		p.owner.Term = store.Term{}
		if epoch > 0 {
			p.owner.Term = store.Term{Epoch: epoch, Nonce: s.nonce()}
		}
	}
}

// lock locks all partitions, in the order of their numbers, as [lockAll] does.
func (s *Store) lock() (unlock func()) {
	all := make([]*shard, len(s.partitions))
	for i, p := range s.partitions {
		all[i] = &shard{p: p}
	}
	return lockAll(all)
}
