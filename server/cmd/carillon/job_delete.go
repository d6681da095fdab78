package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
)

// jobDelete holds the flags of `carillon job delete`.
type jobDelete struct {
	connection
	confirmation
	prefix       string
	ifGeneration uint64
}

// newJobDelete returns the command `carillon job delete`.
func newJobDelete(a app) *cobra.Command {
	var d jobDelete
	cmd := &cobra.Command{
		Use:     "delete NAME | --prefix PREFIX",
		Aliases: []string{"rm"},
		Short:   "Remove a job, or all whose names begin with a prefix, and cancel what they run",
		Args: func(cmd *cobra.Command, words []string) error {
			if (len(words) == 1) == cmd.Flags().Changed("prefix") || len(words) > 1 {
				return usagef("give one name or --prefix\nUsage: %s", cmd.UseLine())
			}
			if cmd.Flags().Changed("prefix") && d.prefix == "" {
				return usagef("--prefix: it is empty: that would delete every job of the namespace")
			}
			if flag := d.needless(); flag != "" && len(words) == 1 {
				return usagef("--%s has no effect on one job, which is removed without a question", flag)
			}
			if len(words) == 0 && cmd.Flags().Changed("if-generation") {
				return usagef("--if-generation is about one job; --prefix removes all of their generations")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, words []string) error {
			if len(words) == 0 {
				return d.all(cmd, a)
			}
			return d.call(cmd, func(ctx context.Context, node *client.Client) error {
				return d.one(ctx, cmd, a, node, words[0])
			})
		},
	}
	cmd.Flags().StringVar(&d.prefix, "prefix", "", "remove every job whose name begins with it")
	cmd.Flags().Uint64Var(&d.ifGeneration, "if-generation", 0, "only this `generation` of the job; 0 is any")
	d.confirmation.add(cmd)
	d.connection.add(cmd)
	addOutput(cmd)
	return cmd
}

func (d *jobDelete) one(ctx context.Context, cmd *cobra.Command, a app, node *client.Client, name string) error {
	deleted, err := node.DeleteJob(ctx, d.key(name), carillon.DeleteIfGeneration(d.ifGeneration))
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printMessage(a.out, &pb.DeleteJobResponse{Deleted: true, Interrupted: deleted.Interrupted})
	}
	note := ""
	if deleted.Interrupted {
		note = ", and the attempt in force was told to stop"
	}
	fmt.Fprintf(a.out, "%s deleted%s\n", name, note)
	return nil
}

// all removes the jobs of the prefix. It asks between two calls, so that no call waits for the user's answer.
func (d *jobDelete) all(cmd *cobra.Command, a app) error {
	var jobs many
	if err := d.call(cmd, func(ctx context.Context, node *client.Client) error { return d.count(ctx, node, &jobs) }); err != nil {
		return err
	}
	if do, err := d.confirm(cmd, a, "delete", "jobs", &jobs); !do || err != nil {
		return err
	}
	return d.call(cmd, func(ctx context.Context, node *client.Client) error {
		n, err := node.DeleteJobs(ctx, d.namespace, d.prefix)
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return printMessage(a.out, &pb.DeleteJobsResponse{Deleted: uint32(n)})
		}
		fmt.Fprintf(a.out, "%d deleted\n", n)
		return nil
	})
}

// count counts the jobs of the prefix, unless the number will not be shown.
func (d *jobDelete) count(ctx context.Context, node carillon.Jobs, jobs *many) error {
	if d.yes {
		return nil
	}
	q := carillon.JobQuery{Namespace: d.namespace, Prefix: d.prefix, PageSize: carillon.MaxBatch}
	for {
		page, err := node.ListJobs(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if !jobs.add(page.Jobs[i].Name) {
				return nil
			}
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return nil
		}
	}
}
