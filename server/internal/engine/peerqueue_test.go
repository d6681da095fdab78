package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/message"
)

// slowPeers answers after a second, by the partition's number.
type slowPeers struct {
	mu         sync.Mutex
	busy, most int
}

func (s *slowPeers) Ask(_ context.Context, p int, m message.Message) (any, error) {
	s.add(1)
	defer s.add(-1)
	time.Sleep(time.Second)
	switch m.(type) {
	case message.StillWaits:
		return p%2 == 0, nil
	case message.DeliverNotice:
		return message.Taken, nil
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
		answers := map[message.Answer]int{}
		const notices = 3 * peerCallsAtOnce
		for i := range notices {
			q.send(i, message.Notice{}, i%3 == 0, func(a message.Answer) {
				mu.Lock()
				defer mu.Unlock()
				answers[a]++
			})
		}
		running.Wait()
		if peers.most != peerCallsAtOnce || q.workers != 0 {
			t.Errorf("%d at once, %d workers left", peers.most, q.workers)
		}
		if nobody := notices / 6; answers[message.Nobody] != nobody || answers[message.Taken] != notices-nobody {
			t.Errorf("answers %v", answers)
		}
	})
}
