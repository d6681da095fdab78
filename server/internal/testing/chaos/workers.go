package chaos

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/deliveries"
	"github.com/carillonhq/carillon/worker"
)

// workers is everybody but the nemesis: clients, workers, the endpoint.
type workers struct {
	log    func(format string, args ...any)
	seed   uint64
	doors  doors
	record *checker.Recorder
	book   *deliveries.Book
	ended  ended         // what was read at the end
	good   chan struct{} // closed when everything heals
	hook   *endpoint
	bursts []*user
	away   *elsewhere             // a worker in a process of its own; nil: there is none
	owners func() []checker.Owner // in the end; nil: nobody asks
	halts  []deliveries.Break     // of single nodes
	pace   *pace                  // nil: there is none
	// movesOnly: the only thing that goes wrong is that the store moves, and nodes settle before that. Where
	// more does, a node may not be fast enough.
	movesOnly bool

	clients  sync.WaitGroup
	bursting sync.WaitGroup
	workers  sync.WaitGroup
	mu       sync.Mutex
	failed   []error // of what must not fail
}

// doors are where a system is reached.
type doors interface {
	client(d dice) (talker, error)     // for the gRPC API
	web(d dice) caller                 // for REST
	labor(i int) string                // the one address that the i-th worker without the SDK knows
	employer() (*client.Client, error) // for the SDK's worker
	nodes() []*Node                    // those that run
	Deaths() []Death                   // of them
}

// talker is a client of the gRPC API.
type talker interface {
	caller
	batcher
	ListRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error)
	Close() error
}

// newWorkers makes a workers that has not begun.
func newWorkers(record *checker.Recorder, seed uint64, d doors, log func(string, ...any)) (*workers, error) {
	c := &workers{log: log, seed: seed, doors: d, record: record, book: &deliveries.Book{},
		good: make(chan struct{})}
	var err error
	c.hook, err = newEndpoint(record, c.book, newDice(seed, "endpoint"), c.good)
	return c, err
}

// whole is a whole campaign: everybody works while worry does its worst, then everything comes to rest, and
// leave ends the nodes.
func (c *workers) whole(ctx context.Context, worry, leave func(context.Context) error) (Report, error) {
	err := c.live(ctx, worry)
	if err == nil {
		err = leave(ctx)
	}
	c.mu.Lock()
	wrong := errors.Join(c.failed...)
	c.mu.Unlock()
	err = errors.Join(wrong, err, c.hook.close())
	return c.report(), err
}

// live is the campaign after everything was set up, until nodes are to leave.
func (c *workers) live(ctx context.Context, worry func(context.Context) error) error {
	loading, stopLoad := context.WithCancel(ctx)
	working, stopWork := context.WithCancel(ctx)
	defer func() { stopLoad(); stopWork(); c.clients.Wait(); c.bursting.Wait(); c.workers.Wait() }()
	closeAll, err := c.populate(loading, working)
	if err != nil {
		return err
	}
	defer closeAll()
	if err := worry(ctx); err != nil {
		return err
	}
	stopLoad()
	c.clients.Wait()
	c.bursting.Wait()
	close(c.good)
	if c.away != nil {
		if err := c.away.input.Close(); err != nil {
			return err
		}
	}
	c.record.Heal()
	if err := c.rest(ctx); err != nil {
		return err
	}
	stopWork()
	c.workers.Wait()
	return c.dismiss()
}

// dismiss ends the worker in a process of its own, if there is one.
func (c *workers) dismiss() error {
	if c.away == nil {
		return nil
	}
	err := c.away.end()
	c.away = nil
	return err
}

// awayName is the name of the worker in a process of its own.
const awayName = "elsewhere"

// send starts a worker in a process of its own.
func (c *workers) send(command func(WorkerSpec) *exec.Cmd) (err error) {
	spec := WorkerSpec{Name: awayName, Address: c.doors.labor(0), Seed: c.seed}
	c.away, err = startElsewhere(command(spec), newNotes(awayName, c.record, c.book))
	return err
}

// Who takes part.
const (
	clients  = 3
	laborers = 3
)

// populate starts clients and workers.
func (c *workers) populate(loading, working context.Context) (closeAll func(), err error) {
	var dialled []interface{ Close() error }
	closeAll = func() {
		for _, d := range dialled {
			_ = d.Close() // nobody uses it any more
		}
	}
	newUser := func(name string) *user {
		u := &user{name: name, record: c.record, dice: newDice(c.seed, name), endpoint: c.hook.url,
			known: map[string]uint64{}}
		t, dialErr := c.doors.client(newDice(c.seed, name+"'s way"))
		if dialErr != nil {
			err = errors.Join(err, dialErr)
			return u
		}
		u.caller, dialled = t, append(dialled, t)
		return u
	}
	for i := range clients {
		if u := newUser(fmt.Sprintf("client-%d", i)); err == nil {
			c.clients.Go(func() { u.run(loading) })
		}
	}
	if u := newUser("steady"); err == nil {
		for i := range steadyJobs {
			err = errors.Join(err, u.put(u.dice.steady(i, u.endpoint)))
		}
	}
	if c.pace != nil {
		if u := newUser("pace"); err == nil {
			err = c.pace.put(u)
		}
	}
	for i := range burstUsers {
		c.bursts = append(c.bursts, newUser(fmt.Sprintf("burst-%d", i)))
	}
	web := &user{name: "rest", caller: c.doors.web(newDice(c.seed, "rest's way")), record: c.record,
		dice:     newDice(c.seed, "rest"),
		endpoint: c.hook.url}
	c.clients.Go(func() { web.run(loading) })
	for i := range laborers {
		name := fmt.Sprintf("laborer-%d", i)
		l := &laborer{name: name, address: c.doors.labor(i), sees: newNotes(name, c.record, c.book),
			dice: newDice(c.seed, name), good: c.good}
		c.workers.Go(func() { l.run(working) })
	}
	employer, dialErr := c.doors.employer()
	err = errors.Join(err, dialErr)
	if err != nil {
		return closeAll, err
	}
	dialled = append(dialled, employer)
	sdks := []*worker.Worker{employee(employer, c.record, c.book, newDice(c.seed, "employee"), c.good)}
	if c.pace != nil {
		sdks = append(sdks, c.pace.worker(employer, c.record, c.book))
	}
	for _, sdk := range sdks {
		c.workers.Go(func() {
			if err := sdk.Run(working); err != nil {
				c.wrong(err)
			}
		})
	}
	return closeAll, nil
}

// wrong notes what must not happen.
func (c *workers) wrong(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = append(c.failed, err)
}

// A burst is calls without a pause around the moment of the kill, so that some are always on their way to the
// disk.
const (
	burstUsers = 8
	mostBurst  = 40 * time.Millisecond
)

// burst puts new jobs until the node is gone, or a moment has passed. A call that cannot be sent waits for
// the node's next life.
func (c *workers) burst() {
	c.bursting.Wait() // the last one
	for _, u := range c.bursts {
		c.bursting.Go(func() {
			for end := time.Now().Add(2 * mostBurst); time.Now().Before(end); {
				if u.put(u.dice.oneShot(u.fresh(), u.endpoint)) != nil {
					return
				}
			}
		})
	}
}
