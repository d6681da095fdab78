package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// newJobTrigger is `carillon job trigger`.
func newJobTrigger(a app) *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:   "trigger NAME",
		Short: "Run a job now, beside its schedule",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, words []string) error {
			return c.call(cmd, func(ctx context.Context, node *client.Client) error {
				run, err := node.TriggerJob(ctx, c.key(words[0]))
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					return printMessage(a.out, wire.RunToProto(&run))
				}
				fmt.Fprintf(a.out, "%s triggered, run %s\n", words[0], run.ID)
				return nil
			})
		},
	}
	c.add(cmd)
	addOutput(cmd)
	return cmd
}

// newJobPause is `carillon job pause`.
func newJobPause(a app) *cobra.Command {
	return newSetPaused(a, "pause NAME", "Make a job fire nothing until it is resumed", "paused", true)
}

// newJobResume is `carillon job resume`.
func newJobResume(a app) *cobra.Command {
	return newSetPaused(a, "resume NAME", "Let a paused job go on from now", "resumed", false)
}

func newSetPaused(a app, use, short, did string, paused bool) *cobra.Command {
	var c connection
	var note string
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, words []string) error {
			return c.call(cmd, func(ctx context.Context, node *client.Client) error {
				job, err := node.SetPaused(ctx, c.key(words[0]), carillon.Pause{Paused: paused, Note: note})
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					return printMessage(a.out, wire.JobToProto(&job))
				}
				fmt.Fprintf(a.out, "%s %s\n", words[0], did)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "`text` kept with the job: why, for example")
	c.add(cmd)
	addOutput(cmd)
	return cmd
}
