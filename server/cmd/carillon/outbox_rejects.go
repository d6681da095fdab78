package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/outbox"
)

// newOutboxRejects returns the command `carillon outbox rejects`.
func newOutboxRejects(a app) *cobra.Command {
	var url outboxURL
	var limit int
	cmd := &cobra.Command{
		Use:   "rejects --url URL",
		Short: "List what was put in a transaction and then refused",
		Long: `List the commands of an outbox that Carillon has refused, newest first. They are rows of carillon.outbox_rejects, which are
removed after 30 days, or by whoever deletes them. With -o json their jobs are shown, too.`,
		Example: `carillon outbox rejects --url postgres://localhost/shop`,
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > maxRejects {
				return usagef("--limit: %d is not between 1 and %d", limit, maxRejects)
			}
			return url.within(cmd, func(ctx context.Context, url string) error {
				all, err := outbox.Rejects(ctx, url, limit)
				if err != nil {
					return err
				}
				return a.showRejects(cmd, all)
			})
		},
	}
	url.add(cmd)
	cmd.Flags().IntVar(&limit, "limit", 100, "most rejects to list")
	addOutput(cmd)
	return cmd
}

// newOutboxRetry returns the command `carillon outbox retry`.
func newOutboxRetry(a app) *cobra.Command {
	var url outboxURL
	var of outbox.Choice
	var all bool
	cmd := &cobra.Command{
		Use:   "retry --url URL [ID…]",
		Short: "Put what was refused back into an outbox",
		Long: `Put commands of an outbox that Carillon has refused back into it, by their ids, by a part of why they were refused, or all. They
are done in the order in which they were given, and after what is in the outbox already: a job of the same name that was put since is
replaced. Relative times count from when the command was given first. In SQL carillon.retry_rejects(ids) does the same, in the transaction
that calls it.`,
		Example: `carillon outbox retry --url postgres://localhost/shop --reason 'there is no calendar "holidays"'`,
		Args:    arguments(0, outbox.RetriedAtOnce),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, id := range args {
				if !outbox.IsID(id) {
					return usagef("%q is not the id of a command: carillon outbox rejects shows them", id)
				}
			}
			ways := 0
			for _, given := range []bool{len(args) > 0, of.Reason != "", all} {
				if given {
					ways++
				}
			}
			if ways != 1 {
				return usagef("which ones? Give either their ids, or --reason, or --all")
			}
			of.IDs = nil
			if len(args) > 0 {
				of.IDs = args
			}
			return url.within(cmd, func(ctx context.Context, url string) error {
				n, err := outbox.Retry(ctx, url, of)
				if n > 0 || err == nil {
					a.sayf("Tried again: %d.", n)
				}
				return err
			})
		},
	}
	url.add(cmd)
	cmd.Flags().StringVar(&of.Reason, "reason", "", "those that were refused with an error that contains the `text`")
	cmd.Flags().BoolVar(&all, "all", false, "all")
	return cmd
}

// newOutboxWaiting returns the command `carillon outbox waiting`.
func newOutboxWaiting(a app) *cobra.Command {
	var url outboxURL
	var limit int
	cmd := &cobra.Command{
		Use:   "waiting --url URL",
		Short: "List what was put in a transaction and could not be done yet",
		Long: `List the commands of an outbox that were tried and are tried again, oldest first, with why. Commands that follow one of them
with the same name wait too, and are not listed.`,
		Example: `carillon outbox waiting --url postgres://localhost/shop`,
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > maxRejects {
				return usagef("--limit: %d is not between 1 and %d", limit, maxRejects)
			}
			return url.within(cmd, func(ctx context.Context, url string) error {
				all, err := outbox.WaitingOf(ctx, url, limit)
				if err != nil {
					return err
				}
				return a.showWaiting(cmd, all)
			})
		},
	}
	url.add(cmd)
	cmd.Flags().IntVar(&limit, "limit", 100, "most commands to list")
	addOutput(cmd)
	return cmd
}

func (a app) showWaiting(cmd *cobra.Command, all []outbox.Waiting) error {
	if structured(cmd) {
		if all == nil {
			all = []outbox.Waiting{}
		}
		return a.encode(cmd, struct {
			Waiting []outbox.Waiting `json:"waiting"`
		}{all})
	}
	return a.print(table([]string{"GIVEN", "JOB", "ID", "TRIES", "WHY"}, all, func(w *outbox.Waiting) []string {
		return []string{w.GivenAt.UTC().Format(time.RFC3339), w.Namespace + "/" + w.Name, w.ID,
			strconv.Itoa(w.Tries), w.Problem}
	}))
}

// maxRejects is the most rejects of one list.
const maxRejects = 10_000

func (a app) showRejects(cmd *cobra.Command, all []outbox.Reject) error {
	if structured(cmd) {
		if all == nil {
			all = []outbox.Reject{}
		}
		return a.encode(cmd, struct {
			Rejects []outbox.Reject `json:"rejects"`
		}{all})
	}
	return a.print(table([]string{"REJECTED", "JOB", "ID", "WHY"}, all, func(r *outbox.Reject) []string {
		why := r.Kind + ": " + r.Reason
		if r.Field != "" {
			why = r.Kind + ": " + r.Field + ": " + r.Reason
		}
		return []string{r.RejectedAt.UTC().Format(time.RFC3339), r.Namespace + "/" + r.Name, r.ID, why}
	}))
}
