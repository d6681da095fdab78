package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/partition"
)

// slowPeers answers after a second, by the partition's number.
type slowPeers struct {
	mu         sync.Mutex
	busy, most int
}

func (s *slowPeers) Ask(_ context.Context, p int, m Message) (any, error) {
	s.add(1)
	defer s.add(-1)
	time.Sleep(time.Second)
	switch m.(type) {
	case StillWaits:
		return p%2 == 0, nil
	case DeliverNotice:
		return partition.Taken, nil
	}
	return nil, errors.New("what is that")
}

func (s *slowPeers) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy += n
	s.most = max(s.most, s.busy)
}

// TestPeerQueueSendsAFewAtOnce: all are answered, and no goroutine stays.
func TestPeerQueueSendsAFewAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers, running := &slowPeers{}, sync.WaitGroup{}
		q := peerQueue{peers: peers, life: t.Context(), running: &running}
		var mu sync.Mutex
		answers := map[partition.Answer]int{}
		const notices = 3 * peerCallsAtOnce
		for i := range notices {
			q.send(i, partition.Notice{}, i%3 == 0, func(a partition.Answer) {
				mu.Lock()
				defer mu.Unlock()
				answers[a]++
			})
		}
		running.Wait()
		if peers.most != peerCallsAtOnce || q.workers != 0 {
			t.Errorf("%d at once, %d workers left", peers.most, q.workers)
		}
		if nobody := notices / 6; answers[partition.Nobody] != nobody || answers[partition.Taken] != notices-nobody {
			t.Errorf("answers %v", answers)
		}
	})
}
