package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// PauseQueue implements [carillon.Queues].
func (qs clusterQueues) PauseQueue(ctx context.Context, key carillon.QueueKey,
	note string) (carillon.QueueChange, error) {
	pause, err := qs.n.local.PauseQueue(ctx, key, note)
	if err != nil {
		return carillon.QueueChange{}, err
	}
	unheard, err := qs.tell(ctx)
	return carillon.QueueChange{Pause: pause, Unheard: unheard}, err
}

// ResumeQueue implements [carillon.Queues].
func (qs clusterQueues) ResumeQueue(ctx context.Context,
	key carillon.QueueKey) (carillon.QueueChange, error) {
	ended, err := qs.n.local.ResumeQueue(ctx, key)
	if err != nil {
		return carillon.QueueChange{}, err
	}
	unheard, err := qs.tell(ctx)
	return carillon.QueueChange{Ended: ended, Unheard: unheard}, err
}

// PurgeQueue implements [carillon.Queues]: the local engine asks the partitions, on whichever nodes they are.
func (qs clusterQueues) PurgeQueue(ctx context.Context, key carillon.QueueKey,
	o carillon.PurgeOptions) (carillon.PurgeResult, error) {
	return qs.n.local.PurgeQueue(ctx, key, o)
}

// TellOfKeys has all nodes read the API keys, since they have changed, and returns those that have not
// confirmed it in time.
func (qs clusterQueues) TellOfKeys(ctx context.Context) (unheard []string, err error) {
	return qs.tell(ctx)
}

// tell has all nodes read which queues are paused, and the API keys, since that has changed. It returns those
// that have not confirmed it in time. The members and owners are read again: whoever is not among them has
// claimed no partition yet, and reads what is paused when it has.
func (qs clusterQueues) tell(ctx context.Context) (unheard []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, heardWithin)
	defer cancel()
	n := qs.n
	v, err := n.fresh(ctx)
	if err != nil {
		return nil, carillon.Errorf(carillon.Unavailable, "",
			"the change is durable, and all nodes follow within 5 s; repeat the call to learn whether they have: %w", err)
	}
	members := withSelf(v.members, n.cfg.Member)
	heard := make([]bool, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { heard[i] = qs.tellOne(ctx, m) })
	}
	all.Wait()
	known := map[string]bool{}
	for i, m := range members {
		if known[m.ID] = true; !heard[i] {
			unheard = append(unheard, m.ID)
		}
	}
	for _, o := range v.owners { // a node whose heartbeats fail may still have its partitions
		if o.Node != "" && !known[o.Node] {
			known[o.Node] = true
			unheard = append(unheard, o.Node)
		}
	}
	slices.Sort(unheard)
	return unheard, nil
}

// tellAgain is the pause before a node is told again that has not confirmed.
const tellAgain = 50 * time.Millisecond

// tellOne has a node read which queues are paused, until ctx ends, and reports whether it has. It tries
// again: the connection to a node that has just come may not be there yet.
func (qs clusterQueues) tellOne(ctx context.Context, m store.Member) bool {
	for {
		c, done, err := qs.n.peers.control(m)
		if err == nil {
			err = c.ReloadQueues(ctx)
			done()
		}
		if err == nil || errors.Is(err, ErrOlder) {
			return err == nil
		}
		select {
		case <-time.After(tellAgain):
		case <-ctx.Done():
			return false
		}
	}
}

// ReloadQueues implements [Control].
func (n *Node) ReloadQueues(ctx context.Context) error { return n.local.ReloadQueues(ctx) }
