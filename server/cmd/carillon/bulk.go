package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// bulk holds the flags of a command that acts on one thing by its name, or on all that a filter selects.
type bulk struct {
	connection
	confirmation
	all bool
	// whole, if not nil, returns the one call that does what the flags ask for; nil if there is none.
	whole func(cmd *cobra.Command) question
}

func (b *bulk) add(cmd *cobra.Command, all string) {
	cmd.Flags().BoolVar(&b.all, "all", false, all)
	b.confirmation.add(cmd)
	b.connection.add(cmd)
}

// oneOrFilter checks that there is a name, or flags that say which are meant.
func (b *bulk) oneOrFilter(cmd *cobra.Command, words []string) error {
	switch {
	case len(words) > 1:
		return arguments(0, 1)(cmd, words)
	case len(words) == 1 && filtered(cmd):
		return usagef("give one name, or flags that say which are meant, not both\nUsage: %s", cmd.UseLine())
	case len(words) == 0 && !filtered(cmd):
		return usagef("give one name, or flags that say which are meant, or --all\nUsage: %s", cmd.UseLine())
	}
	if flag := b.needless(); flag != "" && len(words) == 1 {
		return usagef("--%s has no effect on a single one, for which there is no question", flag)
	}
	for _, name := range filterFlags {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return usagef("--%s: it is empty; leave it out", name)
		}
	}
	return nil
}

// bulkPage makes one call: of the page after a token, with a deadline of its own.
type bulkPage func(ctx context.Context, node *client.Client, token string,
	dryRun bool) (carillon.BulkResult, error)

// bulkPageSize is how many a call acts on: few enough to be done within --wait.
const bulkPageSize = 500

// sum makes calls until all is done, or until more than most are matched, and adds up what they did. After an
// error it is what was done before.
func (b *bulk) sum(cmd *cobra.Command, page bulkPage, dryRun bool,
	most int) (all carillon.BulkResult, err error) {
	for token := ""; ; token = all.NextPageToken {
		var r carillon.BulkResult
		err := b.call(cmd, func(ctx context.Context, node *client.Client) (err error) {
			r, err = page(ctx, node, token, dryRun)
			return err
		})
		if err != nil {
			return all, err
		}
		all.Matched, all.Changed, all.Failed = all.Matched+r.Matched, all.Changed+r.Changed, all.Failed+r.Failed
		all.Names = firstFew(all.Names, r.Names)
		all.Failures = firstFew(all.Failures, r.Failures)
		if all.NextPageToken = r.NextPageToken; r.NextPageToken == "" || all.Changed > most {
			return all, nil
		}
	}
}

func firstFew[T any](list, more []T) []T {
	return append(list, more[:min(len(more), max(0, shownAtMost-len(list)))]...)
}

// givenAlone reports whether no flag but one says what is meant.
func givenAlone(cmd *cobra.Command, flag string) bool {
	return cmd.Flags().Changed(flag) && !slices.ContainsFunc(filterFlags, func(name string) bool {
		return name != flag && cmd.Flags().Changed(name)
	})
}

// run asks, acts on all that are selected, and prints what became of it.
func (b *bulk) run(cmd *cobra.Command, a app, verb, noun, did string, page bulkPage) error {
	do, err := b.confirm(cmd, a, verb, noun, func() (many, error) {
		r, err := b.sum(cmd, page, true, countedAtMost)
		return many{n: r.Changed, names: r.Names}, err
	})
	if !do || err != nil {
		return err
	}
	if b.whole != nil {
		if q := b.whole(cmd); q != nil {
			return b.ask(a, q)(cmd, nil)
		}
	}
	r, err := b.sum(cmd, page, false, math.MaxInt)
	if err != nil {
		if r.Changed > 0 {
			return fmt.Errorf("%d %s %s before this: %w", r.Changed, noun, did, err)
		}
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d %s\n", r.Changed, did)
	for _, f := range r.Failures {
		fmt.Fprintf(&text, "  %s: %s\n", f.Name, f.Reason)
	}
	if err := a.answer(cmd, answer{message: wire.BulkResultToProto(&r), text: text.String()}); err != nil {
		return err
	}
	if r.Failed > 0 {
		return fmt.Errorf("%d of %d %s could not be %s", r.Failed, r.Matched, noun, did)
	}
	return nil
}
