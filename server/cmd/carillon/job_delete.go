package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
)

// newJobDelete returns the command `carillon job delete`.
func newJobDelete(a app) *cobra.Command {
	j := jobBulk{action: carillon.BulkJobs{Action: carillon.JobDelete}}
	var ifGeneration uint64
	cmd := j.command(a, "delete", "Remove jobs, and cancel what they run", "deleted",
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			deleted, err := node.DeleteJob(ctx, j.key(words[0]), carillon.IfGeneration(ifGeneration))
			note := ""
			if deleted.Interrupted {
				note = ", and the attempt in force was told to stop"
			}
			return answer{message: &pb.DeleteJobResponse{Deleted: true, Interrupted: deleted.Interrupted},
				text: words[0] + " deleted" + note + "\n"}, err
		})
	j.whole = func(cmd *cobra.Command) question {
		if !givenAlone(cmd, "prefix") {
			return nil
		}
		return func(ctx context.Context, node *client.Client, _ []string) (answer, error) {
			n, err := node.DeleteJobs(ctx, j.namespace, j.filter.prefix)
			return answer{message: &pb.DeleteJobsResponse{Deleted: uint32(n)},
				text: fmt.Sprintf("%d deleted\n", n)}, err
		}
	}
	cmd.Aliases = []string{"rm"}
	cmd.Long = `Remove one job, or all that the flags select. If they are more than a prefix, a job that is put while it is about to be removed
is left.`
	cmd.Flags().Uint64Var(&ifGeneration, "if-generation", 0, "only this `generation` of the job; 0 is any")
	check(cmd, func(cmd *cobra.Command) error {
		if filtered(cmd) && cmd.Flags().Changed("if-generation") {
			return usagef("--if-generation is about one job; leave it out with flags that select several")
		}
		return nil
	})
	return cmd
}
