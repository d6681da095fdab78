package chaos

import (
	"bytes"
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
	to, began, kills := c.o.Move(), time.Now(), 0
	for attempt := 1; ; attempt++ {
		args := []string{"migrate", "--from", c.node.Store, "--to", to}
		if c.node.Runs() { // otherwise it has ended, since an earlier attempt came as far as that
			args = append(args, "--live")
		}
		mortal := attempt <= mostKills && c.dice.chance(2)
		if c.o.Kills > 0 {
			mortal = kills < c.o.Kills
		}
		done, err := c.command(ctx, mortal, args...)
		if err == nil || done.killed || !bytes.Contains(done.out, []byte("its lease ends soon")) {
			c.o.Log("  %v: %v after %v\n%s", args, err, done.took.Round(time.Millisecond), done.out)
		}
		if err == nil {
			c.o.Log("  moved after %v; the command was killed %d times", time.Since(began).Round(time.Second), kills)
			break
		}
		if done.hung || time.Since(began) > c.carried(moveWithin)*time.Duration(1+c.o.Kills) {
			return fmt.Errorf("%v: %w\n%s", args, err, done.out)
		}
		if done.killed {
			kills++
			continue
		}
		// The node ends a moment after what a killed command has made of its store; and what that has begun to
		// fill is its own until its lease has ended.
		_ = c.gone(ctx, time.Second)
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

// commandEnd is how a command has ended.
type commandEnd struct {
	out    []byte
	killed bool
	hung   bool // it was not to be killed, and has not ended in time
	took   time.Duration
}

// command runs carillon; one that is mortal is killed after a while.
func (c *campaign) command(ctx context.Context, mortal bool, args ...string) (end commandEnd, err error) {
	most := c.carried(moveWithin)
	if mortal {
		most = c.dice.between(0, killedWithin+time.Duration(c.o.Ballast)*perJob/20)
	}
	within, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	cmd, began := exec.CommandContext(within, c.o.Binary, args...), time.Now()
	end.out, err = cmd.CombinedOutput()
	end.took = time.Since(began)
	over := err != nil && within.Err() != nil && ctx.Err() == nil
	end.killed, end.hung = over && mortal, over && !mortal
	return end, err
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
