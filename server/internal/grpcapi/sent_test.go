package grpcapi

import (
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

func TestMessagesSayWhenTheyWereSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSentTimes()
		began := time.Now()
		runs := []*pb.Run{{}}
		for range 2 {
			<-time.After(time.Second)
			s.arrived()
		}
		<-time.After(time.Second)
		for name, c := range map[string]struct {
			m            *pb.WorkResponse
			since        time.Time
			heard, clock int64
		}{
			"now": {&pb.WorkResponse{Runs: runs}, time.Now(), 3, int64(3 * time.Second)},
			"between two requests": {&pb.WorkResponse{Runs: runs}, began.Add(1500 * time.Millisecond), 2,
				int64(1500 * time.Millisecond)},
			"at the beginning": {&pb.WorkResponse{Runs: runs}, began, 1, -1},
			"before": {&pb.WorkResponse{Runs: runs}, began.Add(-time.Second), 0,
				-int64(time.Second)},
			"at a time nobody knows":    {&pb.WorkResponse{Runs: runs}, time.Time{}, 0, 0},
			"without runs, so that now": {&pb.WorkResponse{}, time.Time{}, 3, int64(3 * time.Second)},
		} {
			if s.stamp(c.m, c.since); c.m.GetHeard() != c.heard || c.m.GetClock() != c.clock {
				t.Errorf("%s: %d heard, clock %v", name, c.m.GetHeard(), time.Duration(c.m.GetClock()))
			}
		}
		for range 2 * arrivalsKept {
			s.arrived()
		}
		m := &pb.WorkResponse{Runs: runs}
		<-time.After(time.Second)
		if s.stamp(m, began); m.GetHeard() != 0 {
			t.Errorf("of too many requests it knows %d", m.GetHeard())
		}
	})
}
