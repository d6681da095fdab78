package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
)

// jobDelete is the flags of `carillon job delete`.
type jobDelete struct {
	connection
	prefix string
}

// newJobDelete is `carillon job delete`.
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
			return nil
		},
		RunE: func(cmd *cobra.Command, words []string) error {
			return d.call(cmd, func(ctx context.Context, node *client.Client) error {
				if len(words) == 0 {
					return d.all(ctx, cmd, a, node)
				}
				return d.one(ctx, cmd, a, node, words[0])
			})
		},
	}
	cmd.Flags().StringVar(&d.prefix, "prefix", "", "remove every job whose name begins with it")
	d.add(cmd)
	addOutput(cmd)
	return cmd
}

func (d *jobDelete) one(ctx context.Context, cmd *cobra.Command, a app, node *client.Client, name string) error {
	deleted, err := node.DeleteJob(ctx, d.key(name))
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

func (d *jobDelete) all(ctx context.Context, cmd *cobra.Command, a app, node *client.Client) error {
	n, err := node.DeleteJobs(ctx, d.namespace, d.prefix)
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printMessage(a.out, &pb.DeleteJobsResponse{Deleted: uint32(n)})
	}
	fmt.Fprintf(a.out, "%d deleted\n", n)
	return nil
}
