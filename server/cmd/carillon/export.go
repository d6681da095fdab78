package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/manifest"
)

// export holds the flags of `carillon export`.
type export struct {
	connection
	filter jobFilter
}

// newExport returns the command `carillon export`.
func newExport(a app) *cobra.Command {
	var e export
	cmd := &cobra.Command{Use: "export", Short: "Print jobs as YAML that apply takes",
		Long: `Print jobs as YAML that apply takes: what was set, without what became of them. Apply says of each that it is unchanged.
Their namespace is left out, so that apply can put them into another one. Payloads that are kept apart stay references, which
have a meaning in the cluster that they are of.`,
		Example: `carillon export -n shop > shop.yaml
carillon export --label team=data | carillon apply -n staging -f -`,
		Args: arguments(0, 0)}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return e.run(cmd, a) }
	e.filter.add(cmd)
	e.filter.several(cmd)
	e.addNamespace(cmd)
	e.addPlainReach(cmd)
	e.addWait(cmd)
	return cmd
}

func (e *export) run(cmd *cobra.Command, a app) error {
	e.resolve(cmd)
	q := e.filter.resolve(e.namespace)
	n, apart := 0, 0
	for more := true; more; more = q.PageToken != "" {
		err := e.call(cmd, func(ctx context.Context, node *client.Client) error {
			page, err := node.ListJobs(ctx, q)
			if err != nil {
				return err
			}
			q.PageToken = page.NextPageToken
			jobs := slices.DeleteFunc(page.Jobs, func(j carillon.Job) bool { return !e.filter.selects(&j) })
			for i := range jobs {
				if jobs[i].Data.Ref != nil {
					apart++
				}
				if err := writeJob(a, &jobs[i], n > 0); err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if apart > 0 {
		a.sayf("%d of the %d jobs have payloads that are kept apart: another cluster does not know their references.", apart, n)
	}
	return nil
}

// writeJob prints a job as a document of YAML.
func writeJob(a app, j *carillon.Job, follows bool) error {
	j.Namespace = ""
	text, err := manifest.Job(j)
	if err != nil {
		return err
	}
	if follows {
		text = append([]byte("---\n"), text...)
	}
	return a.print(string(text))
}
