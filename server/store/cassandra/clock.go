package cassandra

import (
	"context"
	"errors"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/carillonhq/carillon/server/store/serverclock"
)

// clock is the store's clock: each node of Cassandra tells its time to the millisecond.
type clock struct {
	*serverclock.Clock
	s     *Store
	end   context.CancelFunc
	ended sync.WaitGroup
}

// askEvery is how often the nodes of Cassandra are asked for their time.
const askEvery = 10 * time.Second

// newClock makes a clock that has asked each node that is up once.
func newClock(ctx context.Context, s *Store) *clock {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	c := &clock{Clock: serverclock.New(s.opt.Now), s: s, end: end}
	if err := c.ask(ctx); !c.Known() {
		s.opt.Log.Warn("no node of Cassandra has told its time: this node's clock is used until one does; run NTP on all machines",
			"error", err)
	}
	c.ended.Go(func() { c.Follow(life, func() time.Duration { return askEvery }, c.ask) })
	return c
}

func (c *clock) close() {
	c.end()
	c.ended.Wait()
}

// ask asks each node that is up.
func (c *clock) ask(ctx context.Context) error {
	var failed []error
	for _, h := range c.s.wire.session().GetHosts() {
		if !h.IsUp() {
			continue
		}
		var date time.Time
		asked := c.Own()
		err := c.s.wire.session().Query(`SELECT toTimestamp(now()) FROM system.local`).Consistency(gocql.One).
			SetHostID(h.HostID()).ScanContext(ctx, &date)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		c.Answer(h.HostID(), asked, c.Own(), date, time.Millisecond)
	}
	return errors.Join(failed...)
}
