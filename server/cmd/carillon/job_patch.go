package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
)

// jobPatch holds the flags of `carillon job patch`.
type jobPatch struct {
	connection
	file         string
	ifGeneration uint64
	fields       jobFlags
}

// newJobPatch returns the command `carillon job patch`.
func newJobPatch(a app) *cobra.Command {
	p := jobPatch{fields: newJobFlags(a.in)}
	cmd := &cobra.Command{
		Use:   "patch NAME",
		Short: "Change some fields of a job and leave the rest",
		Long: `Change the fields that are given, in flags or in the file given with -f, and leave the rest. A field is changed as a
whole: a patch with --header alone, for example, would be a target without a URL, and is refused. Of the failure policy
and the history single fields are changed: --max-retries keeps the rest of the policy, whatever its form.`,
		Example: `carillon job patch reports/nightly --schedule "0 0 3 * * *"
carillon job patch reports/nightly --note "moved to three" --label team=data`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, words []string) error { return p.run(cmd, a, words[0]) },
	}
	p.fields.add(cmd)
	cmd.Flags().StringVarP(&p.file, "file", "f", "", "JSON `file` with the new values; - for standard input")
	cmd.Flags().Uint64Var(&p.ifGeneration, "if-generation", 0, "only over this `generation`; 0 is any")
	p.add(cmd)
	cmd.ValidArgsFunction = p.completeJobs
	p.completeQueues(cmd, "worker")
	p.completeJobFlag(cmd, "depends-on")
	exclusive(cmd, "in", "at")
	return cmd
}

func (p *jobPatch) run(cmd *cobra.Command, a app, name string) error {
	patch, err := p.patch(cmd, a)
	if err != nil {
		return err
	}
	return p.ask(a, func(ctx context.Context, node *client.Client, _ []string) (answer, error) {
		put, err := node.PatchJob(ctx, p.key(name), patch)
		return a.putAnswer(&put), err
	})(cmd, nil)
}

// patch returns the patch that the file and the flags describe.
func (p *jobPatch) patch(cmd *cobra.Command, a app) (carillon.Patch, error) {
	patch := carillon.Patch{IfGeneration: p.ifGeneration}
	var err error
	if p.file != "" {
		if patch.Job, patch.Fields, err = readJob(p.file, a.in); err != nil {
			return patch, err
		}
	}
	if patch.Fields, err = p.fields.apply(cmd.Flags(), &patch.Job, patch.Fields); err != nil {
		return patch, err
	}
	if len(patch.Fields) == 0 {
		return patch, usagef("nothing to change: give a flag such as --schedule, or -f")
	}
	if slices.Contains(patch.Fields, "data") {
		err = checkData(&patch.Job.Data)
	}
	return patch, err
}
