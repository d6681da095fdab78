package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
)

// jobBackfill holds the flags of `carillon job backfill`.
type jobBackfill struct {
	follower
	from, to string
	overlap  choice
	rate     float64
}

// newJobBackfill returns the command `carillon job backfill`.
func newJobBackfill(a app) *cobra.Command {
	b := jobBackfill{overlap: choice{words: backfillOverlaps}}
	cmd := &cobra.Command{
		Use:   "backfill NAME",
		Short: "Run a job at the past times of its schedule",
		Long: `Run a job at each time that its schedule had in a stretch of the past, beside its schedule and also while it is paused.
Each is a run of its own, with cause backfill.`,
		Example: `carillon job backfill reports/nightly --from 2026-01-01T00:00:00Z --to 2026-01-31T23:59:59Z
carillon job backfill metrics --from 2026-11-20T00:00:00Z --overlap allow --rate 5 --follow`,
		Args: arguments(1, 1), ValidArgsFunction: b.completeJobs,
		RunE: func(cmd *cobra.Command, words []string) error {
			spec, err := b.spec()
			if err != nil {
				return err
			}
			return b.run(cmd, a, "started", func(ctx context.Context, node *client.Client) (carillon.Backfill, error) {
				return node.StartBackfill(ctx, b.key(words[0]), spec)
			})
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&b.from, "from", "", "the first RFC 3339 `time`, inclusive (required)")
	cmd.Flags().StringVar(&b.to, "to", "", "the last RFC 3339 `time`, inclusive; default now")
	b.overlap.add(cmd, "overlap", "one run at a time, in order, or each without waiting for the one before")
	cmd.Flags().Float64Var(&b.rate, "rate", 0, "most `runs` begun in a second; default no limit")
	b.add(cmd)
	return cmd
}

// spec returns what the flags ask for; the node validates the rest.
func (b *jobBackfill) spec() (carillon.BackfillSpec, error) {
	spec := carillon.BackfillSpec{Rate: b.rate}
	if b.overlap.String() == carillon.OverlapAllow.String() {
		spec.Overlap = carillon.OverlapAllow
	}
	var err error
	if b.from == "" {
		return spec, usagef("--from: from when on? For example --from 2027-01-31T08:00:00Z")
	}
	if spec.From, err = flagTime("from", b.from); err != nil || b.to == "" {
		return spec, err
	}
	spec.To, err = flagTime("to", b.to)
	return spec, err
}

// flagTime parses the time in a flag.
func flagTime(flag, text string) (time.Time, error) {
	now := time.Now()
	t, err := parseInstant(text, now, now.Location())
	if err != nil {
		return t, usagef("--%s: %q is no time; write for example 2027-01-31T08:00:00Z or \"yesterday 18:00\"", flag, clip(text, 40))
	}
	return t, nil
}
