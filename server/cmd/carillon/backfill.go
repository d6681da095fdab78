package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// newBackfill returns the command `carillon backfill`.
func newBackfill(a app) *cobra.Command {
	return newGroup("backfill", "Show and act on backfills, which `carillon job backfill` starts",
		newBackfillList(a), newBackfillGet(a), newBackfillCancel(a))
}

// newBackfillList returns the command `carillon backfill list`.
func newBackfillList(a app) *cobra.Command {
	var c connection
	cmd := c.inNamespace(a, "list JOB", "List the backfills of a job, newest first",
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			backfills, err := node.ListBackfills(ctx, c.key(words[0]))
			return answer{message: &pb.ListBackfillsResponse{Backfills: wire.BackfillsToProto(backfills)},
				text: table([]string{"ID", "STATUS", "FROM", "TO", "ENDED", "FAILED", "NEXT"}, backfills,
					backfillRow)}, err
		})
	cmd.Aliases = []string{"ls"}
	cmd.ValidArgsFunction = c.completeJobs
	return cmd
}

func backfillRow(b *carillon.Backfill) []string {
	return []string{b.ID, b.Status.String(), moment(b.Spec.From), moment(b.Spec.To), endedText(b),
		strconv.FormatUint(b.Failed, 10), dash(moment(b.Next))}
}

// endedText returns how many of a backfill's runs have ended.
func endedText(b *carillon.Backfill) string {
	return fmt.Sprintf("%d/%d", b.Succeeded+b.Failed, b.Total)
}

// newBackfillGet returns the command `carillon backfill get`.
func newBackfillGet(a app) *cobra.Command {
	var f follower
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show a backfill",
		Args:  arguments(1, 1),
		RunE: func(cmd *cobra.Command, words []string) error {
			return f.run(cmd, a, "", func(ctx context.Context, node *client.Client) (carillon.Backfill, error) {
				return node.GetBackfill(ctx, f.namespace, words[0])
			})
		},
	}
	f.add(cmd)
	return cmd
}

// newBackfillCancel returns the command `carillon backfill cancel`.
func newBackfillCancel(a app) *cobra.Command {
	var c connection
	return c.inNamespace(a, "cancel ID", "Let no further run of a backfill begin and cancel those that have",
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			b, err := node.CancelBackfill(ctx, c.namespace, words[0])
			return answer{message: wire.BackfillToProto(&b),
				text: fmt.Sprintf("backfill %s %s, %s runs had ended\n", b.ID, b.Status, endedText(&b))}, err
		})
}

// backfillDescription describes a backfill for people.
func backfillDescription(b *carillon.Backfill) string {
	rate := "no limit"
	if b.Spec.Rate > 0 {
		rate = fmt.Sprintf("%g a second", b.Spec.Rate)
	}
	return description([]field{
		{"id", b.ID},
		{"namespace", b.Namespace},
		{"job", b.Job},
		{"from", moment(b.Spec.From)},
		{"to", moment(b.Spec.To)},
		{"overlap", b.Spec.Overlap.String()},
		{"rate", rate},
		{"status", b.Status.String()},
		{"runs", fmt.Sprintf("total %d, begun %d, succeeded %d, failed %d", b.Total, b.Begun,
			b.Succeeded, b.Failed)},
		{"next time", moment(b.Next)},
		{"created", moment(b.Created)},
		{"finished", moment(b.Finished)},
	})
}

// follower holds the flags of commands that can wait until a backfill has ended.
type follower struct {
	connection
	follow bool
}

// followEvery is how often a follower asks for the backfill.
const followEvery = 500 * time.Millisecond

func (f *follower) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.follow, "follow", false,
		"stay until it has ended; exit code 1 if a run failed or it was cancelled")
	f.connection.add(cmd)
}

// run prints the backfill that call returns, after its end if the flags ask for that. did says what the call
// did; empty: nothing to say.
func (f *follower) run(cmd *cobra.Command, a app, did string,
	call func(context.Context, *client.Client) (carillon.Backfill, error)) error {
	var b carillon.Backfill
	err := f.call(cmd, func(ctx context.Context, node *client.Client) (err error) {
		b, err = call(ctx, node)
		return err
	})
	if err != nil {
		return err
	}
	if did != "" && !structured(cmd) {
		fmt.Fprintf(a.out, "backfill %s %s, %d runs\n", b.ID, did, b.Total)
	}
	if f.follow {
		if err := f.stay(cmd, &b); err != nil {
			return err
		}
	}
	got := answer{message: wire.BackfillToProto(&b)}
	if did == "" || f.follow {
		got.text = backfillDescription(&b)
	}
	err = a.answer(cmd, got)
	if err == nil && f.follow && (b.Failed > 0 || b.Status == carillon.BackfillCancelled) {
		return fmt.Errorf("backfill %s is %s, and %d of its runs failed", b.ID, b.Status, b.Failed)
	}
	return err
}

// stay waits until the backfill has ended, and shows its progress on a terminal.
func (f *follower) stay(cmd *cobra.Command, b *carillon.Backfill) error {
	node, err := f.dial()
	if err != nil {
		return err
	}
	defer node.Close()
	shown := newProgress(cmd.ErrOrStderr())
	defer shown.clear()
	for b.Status == carillon.BackfillRunning {
		shown.show("backfill "+b.ID, int64(b.Succeeded+b.Failed), int64(b.Total))
		select {
		case <-cmd.Context().Done():
			return fmt.Errorf("stopped looking; the backfill goes on, see `carillon backfill get %s`", b.ID)
		case <-time.After(followEvery):
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), f.wait)
		now, err := node.GetBackfill(ctx, b.Namespace, b.ID)
		cancel()
		switch {
		case err == nil:
			*b = now
		case cmd.Context().Err() == nil:
			return f.explain(err)
		}
	}
	return nil
}
