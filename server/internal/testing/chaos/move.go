package chaos

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

const (
	// mostKills is how often the command that moves a store is killed, which is before killedWithin has passed,
	// and later if there is ballast.
	mostKills, killedWithin = 3, 400 * time.Millisecond
	// moveWithin is how long all attempts may take. One that was killed keeps the new store for the length of
	// its lease.
	moveWithin = 2 * time.Minute
)

// move moves everything to another store while the node serves it. The command is killed now and then, and
// run again until it has come to its end. The node must end by itself then.
func (c *campaign) move(ctx context.Context) error {
	to, began := c.o.Move(), time.Now()
	for attempt := 1; ; attempt++ {
		args := []string{"migrate", "--from", c.node.Store, "--to", to}
		if c.node.Runs() { // otherwise it has ended, since an earlier attempt came as far as that
			args = append(args, "--live")
		}
		killed := attempt <= mostKills && c.dice.chance(2)
		if c.o.Kills > 0 {
			killed = attempt <= c.o.Kills
		}
		out, err := c.command(ctx, killed, args...)
		c.o.Log("  %v: %v %s", args, err, out)
		if err == nil {
			break
		}
		if time.Since(began) > c.carried(moveWithin)*time.Duration(1+c.o.Kills) {
			return fmt.Errorf("%v: %w\n%s", args, err, out)
		}
		if !killed {
			// The node ends a moment after what a killed command has made of its store.
			_ = c.gone(ctx, time.Second)
		}
	}
	if err := c.gone(ctx, c.carried(leaveWithin)); err != nil {
		return err
	}
	if code := c.node.State().ExitCode(); code != 1 {
		return fmt.Errorf("the node of a store that has moved ended with %d:\n%s", code, c.node.Log())
	}
	c.node.Store = to
	return nil
}

// command runs carillon, perhaps not to its end.
func (c *campaign) command(ctx context.Context, killed bool, args ...string) ([]byte, error) {
	within := c.carried(moveWithin)
	if killed {
		within = c.dice.between(0, killedWithin+time.Duration(c.o.Ballast)*perJob/20)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return exec.CommandContext(ctx, c.o.Binary, args...).CombinedOutput()
}

// gone waits until the node has ended by itself.
func (c *campaign) gone(ctx context.Context, within time.Duration) error {
	select {
	case <-c.node.Exited():
		return nil
	case <-time.After(within):
		return errors.New("the node goes on")
	case <-ctx.Done():
		return ctx.Err()
	}
}
