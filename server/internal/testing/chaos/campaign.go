package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// Options of a campaign.
type Options struct {
	Binary string // carillon
	Store  string // URL of an empty one
	Cycles int    // lives of the node that end by force
	Seed   uint64
	// Restart ends the server of the store by force and starts it again, while the node goes on. nil: the
	// store has none.
	Restart func()
	// Move returns the URL of a store that is not there yet, to which everything moves while the node serves
	// it. nil: nothing moves.
	Move func() string
	// Kills is how often the command that moves a store is killed in each move; 0: it is drawn.
	Kills int
	// Ballast is how many jobs, due in a far year, the store has before anything goes wrong.
	Ballast int
	// Rate is how many runs a second of jobs that nobody changes there are, besides all others.
	Rate int
	Only []string // kinds of faults to draw from; nil = all
	Log  func(format string, args ...any)
}

// Constants are what the checker may expect here: a machine with few cores, on which clients, workers, node
// and checker share the time.
var Constants = checker.Constants{
	Dispatch: 2 * time.Second, Recovery: 6 * time.Second, Apply: 100 * time.Millisecond, OwnerLease: time.Second,
	Lease: workerLease, Grace: 2 * time.Second, DrainRate: 100,
}

// campaign is one run of it, with one node.
type campaign struct {
	*workers
	o      Options
	node   *Node
	dice   dice
	healed func() // notes the end of the fault that is going on; nil = there is none
}

// Run works a node over and returns what everybody saw. Its error says that the campaign itself could not go
// on, or that something happened that needs no checker to be called wrong: a node that does not start, a
// worker that is refused.
func Run(ctx context.Context, o Options) (Report, error) {
	if err := eachKnown(o.Only, append(slices.Clone(kills), storeRestarts, storeMoves)); err != nil {
		return Report{}, err
	}
	node, err := NewNode(o.Binary, o.Store, "--drain-grace", "2s", "--partitions", "16", "--node-name", "node")
	if err != nil {
		return Report{}, err
	}
	c := &campaign{o: o, node: node, dice: newDice(o.Seed, "nemesis")}
	defer func() { _ = c.node.Kill() }() // at the end it is gone already
	if err := c.up(ctx); err != nil {
		return Report{}, err
	}
	if err := c.load(ctx); err != nil {
		return Report{}, err
	}
	record := checker.NewRecorder("chaos", o.Seed, o.Binary, Constants, nil)
	if c.workers, err = newWorkers(record, o.Seed, oneDoor{node}, o.Log); err != nil {
		return Report{}, err
	}
	c.movesOnly = slices.Equal(o.Only, []string{storeMoves})
	if o.Rate > 0 {
		c.pace = &pace{jobs: o.Rate}
	}
	return c.whole(ctx, c.worry, c.leave)
}

// oneDoor is where a node is reached that is alone.
type oneDoor struct{ node *Node }

func (d oneDoor) client(dice) (talker, error)       { return client.Dial(d.node.GRPC) }
func (d oneDoor) web(dice) caller                   { return rest{d.node.HTTP} }
func (d oneDoor) labor(int) string                  { return d.node.GRPC }
func (d oneDoor) employer() (*client.Client, error) { return client.Dial(d.node.GRPC) }
func (d oneDoor) nodes() []*Node                    { return []*Node{d.node} }
func (d oneDoor) Deaths() []Death                   { return d.node.Deaths() }

// worry does all cycles.
func (c *campaign) worry(ctx context.Context) error {
	began := time.Now()
	for i := range c.o.Cycles {
		if err := c.cycle(ctx, i); err != nil {
			return fmt.Errorf("cycle %d: %w", i, err)
		}
	}
	if c.pace != nil {
		passed, seen := time.Since(began), c.pace.seen.Load()
		c.o.Log("%d runs of the jobs that run all the time in %v, %.0f a second, with all outages", seen,
			passed.Round(time.Second), float64(seen)/passed.Seconds())
	}
	return c.weigh(ctx)
}

// readyWithin is how long a node may take to start.
const readyWithin = 20 * time.Second

// up starts the node and waits until it is ready.
func (c *campaign) up(ctx context.Context) error {
	if err := c.node.Start(); err != nil {
		return err
	}
	return c.ready(ctx)
}

func (c *campaign) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.carried(readyWithin))
	defer cancel()
	if err := c.node.Ready(ctx); err != nil {
		return err
	}
	if c.healed != nil {
		c.healed()
		c.healed = nil
	}
	return nil
}

// hurt notes the beginning of a fault, which ends when the node is ready again.
func (c *campaign) hurt(kind string) {
	if c.healed == nil {
		c.healed = c.record.Break(checker.Fault{Kind: kind})
	}
}

// kills are the ways in which a node ends by force, each as often as it weighs.
var kills = []string{"kill", "kill", "kill", "kill", "kill while leaving", "kill while starting",
	"freeze, then kill"}

// eachKnown names those that are asked for and are no kinds of faults: without them a campaign would prove
// less than was asked for.
func eachKnown(only, kinds []string) error {
	var errs []error
	for _, one := range only {
		if !slices.Contains(kinds, one) {
			errs = append(errs, fmt.Errorf("only: %q is no kind of fault; there are %q", one,
				slices.Compact(slices.Sorted(slices.Values(kinds)))))
		}
	}
	return errors.Join(errs...)
}

// cycle ends the node by force, somehow, and starts it again, perhaps after it died once more while it
// started.
func (c *campaign) cycle(ctx context.Context, i int) error {
	if err := pause(ctx, c.dice.between(200*time.Millisecond, 1800*time.Millisecond)); err != nil {
		return err
	}
	hows := slices.Clone(kills)
	if c.o.Restart != nil {
		hows = append(hows, storeRestarts, storeRestarts, storeRestarts)
	}
	if c.o.Move != nil {
		hows = append(hows, storeMoves, storeMoves, storeMoves, storeMoves, storeMoves, storeMoves)
	}
	if len(c.o.Only) > 0 {
		hows = slices.DeleteFunc(hows, func(how string) bool { return !slices.Contains(c.o.Only, how) })
		if len(hows) == 0 {
			return fmt.Errorf("none of the faults %q can happen to this store", c.o.Only)
		}
	}
	how := pick(c.dice, hows...)
	c.o.Log("cycle %d: %s", i, how)
	c.burst()
	if err := pause(ctx, c.dice.between(0, mostBurst)); err != nil {
		return err
	}
	c.hurt(how)
	switch how {
	case storeRestarts:
		c.o.Restart()
		return c.ready(ctx)
	case storeMoves:
		if err := c.move(ctx); err != nil {
			return fmt.Errorf("move: %w", err)
		}
		return c.up(ctx)
	}
	if err := c.end(ctx, how); err != nil {
		return err
	}
	if err := c.examine(ctx); err != nil {
		return err
	}
	if c.dice.chance(2) {
		if err := pause(ctx, c.dice.between(0, time.Second)); err != nil {
			return err
		}
	}
	if how == "kill while starting" {
		if err := c.stillborn(ctx); err != nil {
			return err
		}
	}
	return c.up(ctx)
}

// storeRestarts is the only fault in which the node goes on. After storeMoves it starts with another store.
const (
	storeRestarts = "store restarts"
	storeMoves    = "store moves"
)

// end ends the node.
func (c *campaign) end(ctx context.Context, how string) error {
	switch how {
	case "kill while leaving":
		if err := c.node.Term(); err != nil {
			return err
		}
		if err := pause(ctx, c.dice.between(0, 500*time.Millisecond)); err != nil {
			return err
		}
	case "freeze, then kill":
		if err := c.freeze(ctx); err != nil {
			return err
		}
	}
	return c.node.Kill()
}

// freeze stops the process for a while, in which leases run out and timers are missed, and lets it go on for
// a moment.
func (c *campaign) freeze(ctx context.Context) error {
	if err := c.node.Freeze(); err != nil {
		return err
	}
	err := pause(ctx, c.dice.between(200*time.Millisecond, 3*time.Second))
	if err := errors.Join(err, c.node.Thaw()); err != nil {
		return err
	}
	return pause(ctx, c.dice.between(0, 300*time.Millisecond))
}

// stillborn starts the node and kills it while it starts.
func (c *campaign) stillborn(ctx context.Context) error {
	for range 1 + c.dice.IntN(3) {
		if err := c.node.Start(); err != nil {
			return err
		}
		if err := pause(ctx, c.dice.between(0, 60*time.Millisecond)); err != nil {
			return err
		}
		select {
		case <-c.node.Exited():
			return fmt.Errorf("the node ended by itself while it started:\n%s", c.node.Log())
		default:
		}
		if err := c.node.Kill(); err != nil {
			return err
		}
	}
	return nil
}

// leave asks the node to end, which it must do in good order.
func (c *campaign) leave(ctx context.Context) error { return c.node.Leave(ctx) }
