package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
)

// deletion holds the flags of `carillon delete`.
type deletion struct {
	manifests
	confirmation
}

// newDelete returns the command `carillon delete`.
func newDelete(a app) *cobra.Command {
	var d deletion
	cmd := &cobra.Command{Use: "delete -f FILE", Short: "Delete the jobs that files name",
		Long: "Delete the jobs that files name, whatever else the files say of them, and cancel what they run. Jobs that are not\n" +
			"there are no error. Other jobs are deleted by \"carillon job delete\".",
		Args: arguments(0, 0)}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return d.run(cmd, a) }
	d.manifests.add(cmd)
	d.confirmation.add(cmd)
	return cmd
}

func (d *deletion) run(cmd *cobra.Command, a app) error {
	items, err := d.read(cmd, a.in)
	if err != nil {
		return err
	}
	do, err := d.confirm(cmd, a, "delete", "jobs", func() (many, error) {
		live, err := d.live(cmd, items)
		m := many{}
		for _, j := range live {
			if j != nil {
				m.n++
				m.names = append(m.names, d.shownName(j))
			}
		}
		return m, err
	})
	if !do || err != nil {
		return err
	}
	errs, err := d.each(cmd, "deleting", len(items),
		func(ctx context.Context, node *client.Client, i int) error {
			_, err := node.DeleteJob(ctx, items[i].Job.Key())
			return err
		})
	if errs == nil {
		return err
	}
	var text strings.Builder
	results, failed := make([]applied, len(items)), 0
	for i := range items {
		j := &items[i].Job
		results[i] = applied{j.Namespace, j.Name, "deleted", ""}
		switch {
		case carillon.KindOf(errs[i]) == carillon.NotFound:
			results[i].Action = "absent"
		case errors.Is(errs[i], errNotSent):
			results[i].Action = "not sent"
		case errs[i] != nil:
			failed++
			results[i].Action, results[i].Error = "failed", errorText(errs[i])
		}
		fmt.Fprintf(&text, "%s %s\n", d.shownName(j), commas(results[i].Action, results[i].Error))
	}
	if shown := a.answer(cmd,
		answer{value: map[string]any{"jobs": results}, text: text.String()}); shown != nil {
		return shown
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d jobs could not be deleted", failed, len(items))
	}
	return err
}
