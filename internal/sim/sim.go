package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
	"github.com/carillonhq/carillon/store/memory"
)

// Options shape a run. The zero value is a run with every fault.
type Options struct {
	Seed  uint64
	Quiet bool          // no faults, workers that succeed at once, jobs put once
	Busy  time.Duration // how long operations and faults go on; default 60 s
	Calm  time.Duration // how long everything then has to come to rest; default 120 s
}

// Run lives through one seed. It must be called in a testing/synctest bubble, which it leaves empty.
func Run(o Options) (*Ledger, error) {
	if o.Busy == 0 {
		o.Busy = time.Minute
	}
	if o.Calm == 0 {
		o.Calm = 2 * time.Minute
	}
	s := &run{o: o, ledger: &Ledger{}, node: &node{disk: memory.New(memory.Options{Partitions: 4}), seed: o.Seed}}
	ctx := context.Background()
	if err := s.node.start(ctx); err != nil {
		return nil, err
	}
	s.busy()
	if err := s.rest(ctx); err != nil {
		return nil, err
	}
	return s.ledger, nil
}

type run struct {
	o       Options
	ledger  *Ledger
	node    *node
	clients []*client
	failed  error // of the nemesis
}

// rng is the random source of one actor: its own, so that what one does never changes what another draws.
func (s *run) rng(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(s.o.Seed, actor)) }

// busy is the phase of operations and faults.
func (s *run) busy() {
	until := time.Now().Add(s.o.Busy)
	var wg sync.WaitGroup
	for i := range 3 {
		c := &client{node: s.node, ledger: s.ledger, rng: s.rng(10 + uint64(i)), quick: s.o.Quiet}
		for k := range 6 {
			c.names = append(c.names, fmt.Sprintf("client%d/job%d", i, k))
		}
		s.clients = append(s.clients, c)
		if s.o.Quiet {
			wg.Go(c.putEach)
		} else {
			wg.Go(func() { c.run(until) })
		}
		w := s.worker(20+uint64(i), s.o.Quiet)
		wg.Go(func() { w.run(until) })
	}
	if !s.o.Quiet {
		wg.Go(func() { s.failed = s.nemesis(until) })
	}
	wg.Wait()
}

// putEach puts every job of the client once.
func (c *client) putEach() {
	for _, name := range c.names {
		c.put(name)
	}
}

func (s *run) worker(actor uint64, good bool) *worker {
	return &worker{id: fmt.Sprintf("worker%d", actor), near: actor%3 == 0, node: s.node, ledger: s.ledger, rng: s.rng(actor), good: good, sent: map[string][]int{}}
}

// nemesis makes the store slow or faulty and kills the node, until the deadline; then everything is healed.
func (s *run) nemesis(until time.Time) error {
	rng, ctx := s.rng(1), context.Background()
	for time.Now().Before(until) {
		time.Sleep(time.Duration(rng.Int64N(int64(6 * time.Second))))
		f := Fault{From: time.Now()}
		lasts := time.Duration(rng.Int64N(int64(4 * time.Second)))
		switch rng.IntN(4) {
		case 0:
			f.Kind = "slow store"
			s.node.weather(Weather{Delay: 500 * time.Millisecond})
		case 1:
			f.Kind = "store refuses"
			s.node.weather(Weather{Refuse: 0.3})
		case 2:
			f.Kind = "lost acknowledgements"
			s.node.weather(Weather{LoseAck: 0.3})
		case 3:
			f.Kind = "kill"
			if err := s.node.kill(ctx); err != nil {
				return err
			}
		}
		time.Sleep(lasts)
		if f.Kind == "kill" {
			if err := s.node.start(ctx); err != nil {
				return err
			}
		}
		s.node.weather(Weather{})
		f.To = time.Now()
		s.ledger.fault(f)
	}
	return nil
}

// rest lets everything that is due run, with workers that behave, and reads what is left.
func (s *run) rest(ctx context.Context) error {
	if s.failed != nil {
		return s.failed
	}
	var wg sync.WaitGroup
	until := time.Now().Add(s.o.Calm)
	for i := range 2 {
		w := s.worker(30+uint64(i), true)
		wg.Go(func() { w.run(until) })
	}
	for _, c := range s.clients {
		if err := c.closeAll(); err != nil {
			return err
		}
	}
	wg.Wait()
	s.ledger.End = time.Now()
	if err := s.read(ctx); err != nil {
		return err
	}
	return s.node.stop(ctx)
}

// read takes down the history, then deletes every job and notes what is still there.
func (s *run) read(ctx context.Context) error {
	l := s.node.now()
	for _, c := range s.clients {
		for _, name := range c.names {
			if err := s.history(ctx, l, name); err != nil {
				return err
			}
		}
	}
	if _, err := l.engine.DeleteJobs(ctx, namespace, "client"); err != nil {
		return err
	}
	return s.leftovers(ctx, l)
}

func (s *run) history(ctx context.Context, l *life, name string) error {
	q := carillon.RunQuery{Job: name, PageSize: carillon.MaxBatch}
	for {
		page, err := l.engine.ListRuns(ctx, q)
		if err != nil {
			return err
		}
		for _, r := range page.Runs {
			s.ledger.History = append(s.ledger.History, Ended{RunID: r.ID, Job: r.Job, Status: r.Status.String(), Cause: r.Cause.String(),
				Scheduled: r.Scheduled, From: r.From, Skipped: r.Skipped, Attempt: r.Attempt})
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return nil
		}
	}
}

// leftovers looks for records, index entries and memory that nothing accounts for.
func (s *run) leftovers(ctx context.Context, l *life) error {
	time.Sleep(2 * time.Second) // for deletes on their way
	left := func(format string, args ...any) { s.ledger.Left = append(s.ledger.Left, fmt.Sprintf(format, args...)) }
	if st := l.engine.Stats(); st.Resident != 0 || st.Bytes != 0 || st.InFlight != 0 {
		left("in memory: %+v", st)
	}
	for p := range s.node.disk.Meta().Partitions {
		sh, err := s.node.disk.Shard(p, store.Term{})
		if err != nil {
			return err
		}
		records, err := sh.List(ctx, store.ListQuery{Limit: 100})
		if err != nil {
			return err
		}
		for class := range uint8(4) {
			due, err := sh.Due(ctx, store.DueQuery{Class: class, Until: 1 << 62, Limit: 100})
			if err != nil {
				return err
			}
			records = append(records, due...)
		}
		for _, r := range records {
			left("partition %d: %s/%d %+v", p, r.Key, r.Seq, r.State)
		}
	}
	return nil
}
