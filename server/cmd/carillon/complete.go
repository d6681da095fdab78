package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
)

// completionWait is how long a shell waits for a node. Without an answer it offers nothing.
const completionWait = 800 * time.Millisecond

// mostCompleted is how many names a shell is offered.
const mostCompleted = 200

// offer asks a node for names. Whatever fails, it offers none: a shell has no place for errors.
func (c *connection) offer(cmd *cobra.Command,
	ask func(ctx context.Context, node *client.Client) ([]string, error)) []string {
	c.resolve(cmd)
	node, err := c.dial()
	if err != nil {
		return nil
	}
	defer node.Close()
	ctx, cancel := context.WithTimeout(context.Background(), completionWait)
	defer cancel()
	names, err := ask(ctx, node)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(names,
		func(n string) bool { return visibleText(n) != n || strings.ContainsAny(n, "\n\v\f") })
}

// completion is what cobra asks for the words after a command.
type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// first completes the first argument alone.
func (c *connection) first(ask func(ctx context.Context, node *client.Client, typed string) ([]string,
	error)) completion {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.offer(cmd, func(ctx context.Context, node *client.Client) ([]string, error) {
			return ask(ctx, node, typed)
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeJobs offers the names of jobs.
func (c *connection) completeJobs(cmd *cobra.Command, args []string, typed string) ([]string,
	cobra.ShellCompDirective) {
	return c.first(c.jobNames)(cmd, args, typed)
}

func (c *connection) jobNames(ctx context.Context, node *client.Client, typed string) ([]string, error) {
	page,
		err := node.ListJobs(ctx, carillon.JobQuery{Namespace: c.namespace, Prefix: typed, PageSize: mostCompleted})
	return namesOf(page.Jobs, jobName), err
}

// runIDs returns the short ids of runs.
func (c *connection) runIDs(ctx context.Context, node *client.Client, _ string) ([]string, error) {
	page, err := node.ListRuns(ctx, carillon.RunQuery{Namespace: c.namespace, PageSize: mostCompleted})
	return namesOf(page.Runs, func(r *carillon.Run) string {
		return shortID(r.ID) + "\t" + r.Job + " " + r.Status.String()
	}), err
}

func (c *connection) queueNames(ctx context.Context, node *client.Client, _ string) ([]string, error) {
	page, err := node.ListQueues(ctx, carillon.QueueQuery{Namespace: c.namespace, PageSize: mostCompleted})
	return unique(namesOf(page.Queues, queueName)), err
}

func (c *connection) calendarNames(ctx context.Context, node *client.Client, _ string) ([]string, error) {
	page, err := node.ListCalendars(ctx, carillon.CalendarQuery{Namespace: c.namespace, PageSize: mostCompleted})
	return namesOf(page.Calendars, func(c *carillon.Calendar) string { return c.Name }), err
}

func (c *connection) namespaceNames(ctx context.Context, node *client.Client, _ string) ([]string, error) {
	page, err := node.ListNamespaces(ctx, carillon.NamespaceQuery{PageSize: mostCompleted})
	return namesOf(page.Namespaces, func(n *carillon.Namespace) string { return n.Name }), err
}

func (c *connection) nodeIDs(ctx context.Context, node *client.Client, _ string) ([]string, error) {
	status, err := node.ClusterStatus(ctx)
	return namesOf(status.Nodes, func(n *carillon.Node) string { return n.ID }), err
}

// unique returns the words sorted, each once.
func unique(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}

// completeNamespace offers namespaces after --namespace.
func (c *connection) completeNamespace(cmd *cobra.Command) {
	completeBy(cmd, "namespace", func(cmd *cobra.Command) []string {
		return c.offer(cmd, func(ctx context.Context, node *client.Client) ([]string, error) {
			return c.namespaceNames(ctx, node, "")
		})
	})
}

// completeQueues offers queues after a flag.
func (c *connection) completeQueues(cmd *cobra.Command, flag string) {
	completeBy(cmd, flag, func(cmd *cobra.Command) []string {
		return c.offer(cmd, func(ctx context.Context, node *client.Client) ([]string, error) {
			return c.queueNames(ctx, node, "")
		})
	})
}

// completeJobFlag offers jobs after a flag.
func (c *connection) completeJobFlag(cmd *cobra.Command, flag string) {
	completeBy(cmd, flag, func(cmd *cobra.Command) []string {
		return c.offer(cmd, func(ctx context.Context, node *client.Client) ([]string, error) {
			return c.jobNames(ctx, node, "")
		})
	})
}
