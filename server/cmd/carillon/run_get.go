package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// newRunGet returns the command `carillon run get`.
func newRunGet(a app) *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show a run",
		Args:  arguments(1, 1),
		RunE: func(cmd *cobra.Command, words []string) error {
			return c.call(cmd, func(ctx context.Context, node *client.Client) error {
				run, err := node.GetRun(ctx, c.namespace, words[0])
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					return printMessage(a.out, wire.RunToProto(&run))
				}
				return printRun(a.out, &run)
			})
		},
	}
	c.add(cmd)
	addOutput(cmd)
	return cmd
}

// printRun describes a run for people.
func printRun(w io.Writer, r *carillon.Run) error {
	fields := []field{
		{"id", r.ID},
		{"job", r.Job},
		{"cause", r.Cause.String()},
		{"status", r.Status.String()},
		{"reason", r.Reason},
		{"scheduled", moment(r.Scheduled)},
		{"due", moment(r.Due)},
		{"attempt", strconv.Itoa(r.Attempt)},
		{"started", moment(r.Started)},
		{"finished", moment(r.Finished)},
		{"progress", progressText(r.Progress)},
		{"backfill", r.Backfill},
		{"worker", r.Worker},
		{"data", dataText(r.Data)},
		{"response", clip(string(r.Response), 120)},
	}
	for _, e := range r.Errors {
		name := fmt.Sprintf("attempt %d failed", e.Attempt)
		if e.Redriven {
			name += ", before a redrive"
		}
		fields = append(fields, field{name, moment(e.At) + " " + clip(e.Message, 200)})
	}
	return printFields(w, fields)
}

// progressText describes an attempt's last reported progress, on one line.
func progressText(p *carillon.Progress) string {
	if p == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%.4g %%, %s %s", p.Percent, moment(p.At), clip(p.Message, 120)))
}
