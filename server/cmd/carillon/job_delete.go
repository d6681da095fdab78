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
			if len(words) == 1 {
				return d.ask(a, d.one)(cmd, words)
			}
			if do, err := d.confirm(cmd, a, &d.connection, "delete", "jobs", d.names); !do || err != nil {
				return err
			}
			return d.ask(a, d.all)(cmd, words)
		},
	}
	cmd.Flags().StringVar(&d.prefix, "prefix", "", "remove every job whose name begins with it")
	cmd.Flags().Uint64Var(&d.ifGeneration, "if-generation", 0, "only this `generation` of the job; 0 is any")
	d.confirmation.add(cmd)
	d.connection.add(cmd)
	return cmd
}

// one removes the job of the name.
func (d *jobDelete) one(ctx context.Context, node *client.Client, words []string) (answer, error) {
	deleted, err := node.DeleteJob(ctx, d.key(words[0]), carillon.IfGeneration(d.ifGeneration))
	note := ""
	if deleted.Interrupted {
		note = ", and the attempt in force was told to stop"
	}
	return answer{message: &pb.DeleteJobResponse{Deleted: true, Interrupted: deleted.Interrupted},
		text: words[0] + " deleted" + note + "\n"}, err
}

// all removes the jobs of the prefix.
func (d *jobDelete) all(ctx context.Context, node *client.Client, _ []string) (answer, error) {
	n, err := node.DeleteJobs(ctx, d.namespace, d.prefix)
	return answer{message: &pb.DeleteJobsResponse{Deleted: uint32(n)}, text: fmt.Sprintf("%d deleted\n", n)}, err
}

// names returns a page of the names of the jobs of the prefix.
func (d *jobDelete) names(ctx context.Context, node *client.Client, token string, size int) (
	names []string, next string, err error,
) {
	page, err := node.ListJobs(ctx, carillon.JobQuery{Namespace: d.namespace, Prefix: d.prefix, PageSize: size,
		PageToken: token})
	for i := range page.Jobs {
		names = append(names, page.Jobs[i].Name)
	}
	return names, page.NextPageToken, err
}
