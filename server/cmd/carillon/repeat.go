package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
)

// repeated holds the flag --watch: a command asks again and again, and shows what has changed.
type repeated struct {
	every time.Duration
}

// Limits of --watch.
const (
	defaultEvery  = 2 * time.Second
	shortestEvery = 200 * time.Millisecond
)

func (r *repeated) add(cmd *cobra.Command) {
	cmd.Flags().DurationVarP(&r.every, "watch", "w", 0,
		"show it again, as often as `duration` says, whenever it has changed, until it is interrupted")
	cmd.Flags().Lookup("watch").NoOptDefVal = defaultEvery.String()
	check(cmd, func(cmd *cobra.Command) error {
		if cmd.Flags().Changed("watch") && r.every < shortestEvery {
			return usagef("--watch: %v is less than %v", r.every, shortestEvery)
		}
		return nil
	})
}

// one makes a command about one thing answer by q, again and again with --watch.
func (r *repeated) one(cmd *cobra.Command, a app, c *connection, q question) {
	addFormats(cmd, oneFormats)
	r.add(cmd)
	cmd.RunE = r.ask(a, c, q)
}

// ask is [connection.ask], once or until the user interrupts it.
func (r *repeated) ask(a app, c *connection, q question) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, words []string) error {
		if r.every == 0 {
			return c.ask(a, q)(cmd, words)
		}
		return r.watch(cmd, a, c, q, words)
	}
}

// passing are the kinds of errors after which a node may answer again.
var passing = []carillon.Kind{carillon.Unavailable, carillon.DeadlineExceeded, carillon.ResourceExhausted}

// clearScreen moves to the upper left and erases what is below.
const clearScreen = "\x1b[H\x1b[2J\x1b[3J"

func (r *repeated) watch(cmd *cobra.Command, a app, c *connection, q question, words []string) error {
	c.resolve(cmd)
	node, err := c.dial()
	if err != nil {
		return err
	}
	defer node.Close()
	screen, shown := a.display().width > 0, []byte(nil)
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for first := true; ; first = false {
		text, err := r.once(cmd, a, c, node, q, words)
		switch {
		case errors.Is(cmd.Context().Err(), context.Canceled):
			return nil
		case err != nil && !first && slices.Contains(passing, carillon.KindOf(err)):
			a.sayf("%s", c.explain(err)) // the node may be back at the next time
		case err != nil:
			return c.explain(err)
		case !first && bytes.Equal(text, shown):
		default:
			head := ""
			switch {
			case screen && !structured(cmd):
				head = clearScreen
			case !first && !structured(cmd):
				head = "\n"
			case !first && formatOf(cmd).word == "yaml":
				head = "---\n"
			}
			if _, err := io.WriteString(a.raw, head+string(text)); err != nil {
				return err
			}
			shown = text
		}
		select {
		case <-cmd.Context().Done():
			return nil
		case <-tick.C:
		}
	}
}

// once asks once, and returns what is to be shown.
func (r *repeated) once(cmd *cobra.Command, a app, c *connection, node *client.Client, q question,
	words []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), c.wait)
	defer cancel()
	got, err := q(ctx, node, words)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	onto := a
	onto.raw, onto.out, onto.on = &out, &visible{w: &out}, new(a.display())
	err = onto.answer(cmd, got)
	return out.Bytes(), err
}
