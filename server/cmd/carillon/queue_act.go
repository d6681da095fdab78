package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// oneQueue holds the flags of a command about one queue.
type oneQueue struct {
	connection
	kind choice
}

// command returns a command about one queue.
func (o *oneQueue) command(a app, use, short string,
	do func(ctx context.Context, node *client.Client, key carillon.QueueKey) (answer, error)) *cobra.Command {
	o.kind = choice{words: queueKindWords, chosen: -1}
	cmd := o.inNamespace(a, use, short,
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			return do(ctx, node, carillon.QueueKey{Namespace: o.namespace, Kind: o.kind.String(), Name: words[0]})
		})
	cmd.ValidArgsFunction = o.first(o.queueNames)
	o.kind.add(cmd, "kind", "the queue is one of targets of this kind; default: worker")
	return cmd
}

// newQueuePause returns the command `carillon queue pause`.
func newQueuePause(a app) *cobra.Command {
	var o oneQueue
	var note string
	cmd := o.command(a, "pause NAME", "Hand out no more attempts of a queue until it is resumed",
		func(ctx context.Context, node *client.Client, key carillon.QueueKey) (answer, error) {
			unknown := unknownQueue(ctx, node, key)
			c, err := node.PauseQueue(ctx, key, note)
			if err == nil && unknown != "" {
				a.sayf("warning: %s", unknown)
			}
			return answer{message: &pb.PauseQueueResponse{Pause: wire.QueuePauseToProto(c.Pause), Unheard: c.Unheard},
				text: queueText(key) + " paused\n", note: unheardNote(c.Unheard, "may hand out runs of it")}, err
		})
	cmd.Long = `Hand out no more attempts of a queue until it is resumed, on any node. Attempts in force go on. Due runs wait, and use no attempt.
The name is as "carillon queue list" shows it: a worker queue, a host of HTTP targets with its port if the URLs have one, app/APP or
actor/TYPE.`
	cmd.Flags().StringVar(&note, "note", "", "`text` shown with the queue: why, for example")
	return cmd
}

// unknownQueue returns what is odd about a queue that no node knows of: it may be meant for later, or be
// another one, such as one of another kind.
func unknownQueue(ctx context.Context, node *client.Client, key carillon.QueueKey) string {
	q := carillon.QueueQuery{Namespace: key.Namespace}
	kinds := []string{}
	for {
		page, err := node.ListQueues(ctx, q)
		if err != nil || len(page.Unheard) > 0 {
			return "" // perhaps the caller may not list them; it is a warning only
		}
		for i := range page.Queues {
			row, name := &page.Queues[i], key.Name
			if row.Kind == "http" {
				name = strings.ToLower(name) // as the node has it
			}
			switch {
			case row.Name != name:
			case row.Kind == cmp.Or(key.Kind, "worker"):
				return ""
			default:
				kinds = append(kinds, row.Kind)
			}
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			break
		}
	}
	text := fmt.Sprintf("nobody serves the %s, and nothing waits in it", queueText(key))
	if len(kinds) > 0 {
		text += fmt.Sprintf("; there is one of that name with --kind %s", strings.Join(kinds, " and with --kind "))
	}
	return text
}

// newQueueResume returns the command `carillon queue resume`.
func newQueueResume(a app) *cobra.Command {
	var o oneQueue
	return o.command(a, "resume NAME", "Let a paused queue go on",
		func(ctx context.Context, node *client.Client, key carillon.QueueKey) (answer, error) {
			c, err := node.ResumeQueue(ctx, key)
			text := queueText(key) + " resumed\n"
			if c.Ended.Since.IsZero() {
				text = queueText(key) + " was not paused\n"
			}
			return answer{text: text,
				message: &pb.ResumeQueueResponse{Ended: wire.QueuePauseToProto(c.Ended), Unheard: c.Unheard},
				note:    unheardNote(c.Unheard, "may hold runs of it back")}, err
		})
}

// queueText names a queue to people.
func queueText(key carillon.QueueKey) string {
	return cmp.Or(key.Kind, "worker") + " queue " + key.Name
}

// unheardNote says which nodes may not know of a change yet.
func unheardNote(unheard []string, what string) string {
	if len(unheard) == 0 {
		return ""
	}
	return fmt.Sprintf("Not heard from, so for up to 5 s they %s: %s.", what, strings.Join(unheard, ", "))
}

// newQueuePurge returns the command `carillon queue purge`.
func newQueuePurge(a app) *cobra.Command {
	var o oneQueue
	var c confirmation
	cmd := o.command(a, "purge NAME", "Cancel the due runs that wait in a queue", nil)
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		key := carillon.QueueKey{Namespace: o.namespace, Kind: o.kind.String(), Name: words[0]}
		if !c.yes {
			would, err := o.purge(cmd, key, carillon.PurgeOptions{DryRun: true})
			if err != nil {
				return err
			}
			if do, err := c.decideCount(cmd, a, "purge", "runs", would.Runs); !do || err != nil {
				return err
			}
		}
		n := 0
		for more := true; more; { // each call ends a bounded number, within --wait
			p, err := o.purge(cmd, key, carillon.PurgeOptions{})
			if n += p.Runs; err != nil {
				return purgedBefore(n, err)
			}
			more = p.More
		}
		return a.answer(cmd, answer{message: &pb.PurgeQueueResponse{Purged: int64(n)},
			text: fmt.Sprintf("%d purged\n", n)})
	}
	cmd.Long = `Cancel the due runs that wait in a queue, as "carillon run cancel" does: jobs that recur go on with their next time, one-shots
are over. Attempts in force stay, and so do runs that wait for the time of their next attempt. Runs that come meanwhile stay as well,
unless the queue was paused before, in which case nothing is handed out meanwhile.`
	c.add(cmd)
	return cmd
}

// purge makes one call.
func (o *oneQueue) purge(cmd *cobra.Command, key carillon.QueueKey,
	options carillon.PurgeOptions) (p carillon.PurgeResult, err error) {
	err = o.call(cmd, func(ctx context.Context, node *client.Client) (err error) {
		p, err = node.PurgeQueue(ctx, key, options)
		return err
	})
	return p, err
}

// purgedBefore says of an error how many runs were purged all the same.
func purgedBefore(n int, err error) error {
	if n == 0 {
		return err
	}
	return fmt.Errorf("%d runs are purged; purge again for the others: %w", n, err)
}
