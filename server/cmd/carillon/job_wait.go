package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// waiting holds the flags of `carillon job wait` and `carillon run wait`.
type waiting struct {
	connection
	timeout time.Duration
	until   choice
}

// What job wait waits for.
const (
	untilFinished  = "finished"
	untilSucceeded = "succeeded"
	untilIdle      = "idle"
)

// lookEvery is how often it is looked.
const lookEvery = 500 * time.Millisecond

// errNotYet is the error of a wait whose time is over.
var errNotYet = errors.New("it is not over yet")

// newJobWait returns the command `carillon job wait`.
func newJobWait(a app) *cobra.Command {
	w := waiting{until: choice{words: []string{untilFinished, untilSucceeded, untilIdle}}}
	cmd := &cobra.Command{Use: "wait NAME", Short: "Wait until a job has run",
		Long: `Wait until a run of a job has finished, one has succeeded, or until nothing of it goes on. Of a job that recurs runs count that
finish from now on; that of a one-shot counts even if it is over, unless the job was put again since. Exit codes: 0 it succeeded, or
nothing goes on; 1 it did not succeed; 4 the time was over before.`,
		Example: `carillon job put once --worker q && carillon job wait once --timeout 5m
carillon job wait reports/nightly --for succeeded --timeout 0`,
		Args: arguments(1, 1), ValidArgsFunction: w.completeJobs}
	cmd.RunE = func(cmd *cobra.Command, words []string) error { return w.job(cmd, a, words[0]) }
	w.until.add(cmd, "for", "what is waited for: a run that has finished, however; one that has succeeded; nothing that goes on")
	w.add(cmd)
	return cmd
}

// newRunWait returns the command `carillon run wait`.
func newRunWait(a app) *cobra.Command {
	var w waiting
	cmd := &cobra.Command{Use: "wait ID", Short: "Wait until a run has finished",
		Long: "Wait until a run has finished. Exit codes: 0 it succeeded; 1 it did not; 4 the time was over before.",
		Args: arguments(1, 1), ValidArgsFunction: w.first(w.runIDs)}
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		id := ""
		return w.loop(cmd, a, "run "+clip(words[0], 60),
			func(ctx context.Context, node *client.Client) (run *carillon.Run, done bool, err error) {
				if id == "" {
					if id, err = wholeID(ctx, node, w.namespace, words[0]); err != nil {
						return nil, false, err
					}
				}
				r, err := node.GetRun(ctx, w.namespace, id)
				return &r, err == nil && !r.Finished.IsZero(), err
			})
	}
	w.add(cmd)
	return cmd
}

func (w *waiting) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&w.timeout, "timeout", 0, "how long to wait; 0 is no limit")
	w.connection.add(cmd)
	check(cmd, func(*cobra.Command) error {
		if w.timeout < 0 {
			return usagef("--timeout: %v is below 0", w.timeout)
		}
		return nil
	})
}

// look reports whether what is waited for has come, and the run that it is about, if there is one.
type look func(ctx context.Context, node *client.Client) (run *carillon.Run, done bool, err error)

func (w *waiting) loop(cmd *cobra.Command, a app, what string, l look) error {
	w.resolve(cmd)
	node, err := w.dial()
	if err != nil {
		return err
	}
	defer node.Close()
	ctx, cancel := cmd.Context(), context.CancelFunc(func() {})
	if w.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, w.timeout)
	}
	defer cancel()
	ended := newProgress(cmd.ErrOrStderr()).wait("waiting for " + what + " …")
	defer ended()
	for {
		asked, answered := context.WithTimeout(ctx, w.wait)
		run, done, err := l(asked, node)
		answered()
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded),
			carillon.KindOf(err) == carillon.DeadlineExceeded && sameDeadline(ctx, asked):
			return fmt.Errorf("%s: %w, after %v", what, errNotYet, w.timeout)
		case err != nil:
			return w.explain(err)
		case done:
			return a.waited(cmd, what, run)
		}
		select {
		case <-ctx.Done():
			if cmd.Context().Err() == nil {
				return fmt.Errorf("%s: %w, after %v", what, errNotYet, w.timeout)
			}
			return errors.New("stopped waiting")
		case <-time.After(lookEvery):
		}
	}
}

// sameDeadline reports whether a call had as long as the whole wait: a node may be the first to see its end.
func sameDeadline(whole, call context.Context) bool {
	end, bounded := whole.Deadline()
	last, _ := call.Deadline()
	return bounded && last.Equal(end)
}

// waited says what came. A run that did not succeed is an error.
func (a app) waited(cmd *cobra.Command, what string, run *carillon.Run) error {
	if run == nil {
		return a.answer(cmd, answer{value: map[string]any{}, text: what + ": nothing goes on\n"})
	}
	text := fmt.Sprintf("run %s of %s: %s\n", shortID(run.ID), run.Job,
		commas(run.Status.String(), clip(whyText(run), 200)))
	if err := a.answer(cmd, answer{message: wire.RunToProto(run), text: text}); err != nil {
		return err
	}
	if run.Status != carillon.RunSucceeded {
		return fmt.Errorf("the run is %s", run.Status)
	}
	return nil
}

func (w *waiting) job(cmd *cobra.Command, a app, name string) error {
	w.resolve(cmd)
	j := jobWait{key: w.key(name), until: w.until.String()}
	return w.loop(cmd, a, "job "+clip(name, 60), j.look)
}
