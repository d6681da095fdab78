package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// newQueue returns the command `carillon queue`.
func newQueue(a app) *cobra.Command {
	return newGroup("queue", "Show, pause, resume and purge queues", newQueueList(a), newQueuePause(a),
		newQueueResume(a), newQueuePurge(a))
}

// queueList holds the flags of `carillon queue list`.
type queueList struct {
	connection
	within string
	kind   choice
	listing
}

var queueKindWords = append([]string{"worker", "http", "dapr"}, delivery.BrokerKinds...)

// newQueueList returns the command `carillon queue list`.
func newQueueList(a app) *cobra.Command {
	l := queueList{kind: choice{words: queueKindWords, chosen: -1}}
	cmd := l.command(a, "list", "List the queues that are served, in which runs wait, or that are paused", nil)
	cmd.Aliases = []string{"ls"}
	cmd.Long = `List the queues that are served, in which runs wait, or that are paused, over all living nodes. READY runs wait in memory for a
consumer or for room, LIMITED ones for a permit of a limit, STAGED ones in the store. OLDEST is when the oldest of these was due. CONSUMERS
are the connections that serve the queue, CREDITS the runs that they have room for, and IN FLIGHT the attempts that they have.`
	cmd.Flags().StringVarP(&l.within, "namespace", "n", "",
		"queues of this `namespace`; default: of all namespaces")
	l.completeNamespace(cmd)
	l.kind.add(cmd, "kind", "queues of targets of this kind")
	l.listing.add(cmd, a, &l.connection, queueColumns.words(), l.list)
	return cmd
}

func (l *queueList) list(ctx context.Context, node *client.Client, _ []string) (answer, error) {
	q := carillon.QueueQuery{Namespace: l.within, Kind: l.kind.String()}
	var unheard []string
	rows, rest, err := collectSorted(l.listing, queueColumns,
		func(token string, size int) ([]carillon.Queue, string, error) {
			q.PageToken, q.PageSize = token, size
			page, err := node.ListQueues(ctx, q)
			unheard = union(unheard, page.Unheard)
			return page.Queues, page.NextPageToken, err
		})
	return answer{grid: queueColumns.grid(rows), text: notes(rows), names: namesOf(rows, queueName),
		note:    listNote(len(rows), rest, unheard),
		message: &pb.ListQueuesResponse{Queues: wire.QueuesToProto(rows), NextPageToken: rest, Unheard: unheard},
	}, err
}

func queueName(q *carillon.Queue) string { return q.Name }

var queueColumns = columns[carillon.Queue]{
	{gridColumn: gridColumn{name: "NAMESPACE"}, cell: func(q *carillon.Queue) string { return q.Namespace }},
	{gridColumn: gridColumn{name: "KIND"}, cell: func(q *carillon.Queue) string { return q.Kind }},
	{gridColumn: gridColumn{name: "QUEUE"}, cell: queueName},
	numberColumn("READY", func(q *carillon.Queue) int { return q.Ready }),
	numberColumn("LIMITED", func(q *carillon.Queue) int { return q.Limited }),
	numberColumn("STAGED", func(q *carillon.Queue) int { return q.Staged }),
	timeColumn("OLDEST", func(q *carillon.Queue) time.Time { return q.Oldest }),
	{gridColumn: gridColumn{name: "CONSUMERS"}, cell: consumersText,
		order: func(a, b *carillon.Queue) int { return cmp.Compare(a.Consumers, b.Consumers) }},
	numberColumn("CREDITS", func(q *carillon.Queue) int { return q.Credits }),
	numberColumn("IN FLIGHT", func(q *carillon.Queue) int { return q.InFlight }),
	wideTime("OLDEST AT", func(q *carillon.Queue) time.Time { return q.Oldest }),
	{gridColumn: gridColumn{name: "PAUSED", wide: true}, cell: func(q *carillon.Queue) string {
		return dash(ago(q.Pause.Since, time.Now()))
	}},
}

func consumersText(q *carillon.Queue) string {
	consumers := strconv.Itoa(q.Consumers)
	if q.Silent > 0 {
		consumers += fmt.Sprintf(" (%d silent)", q.Silent)
	}
	return consumers
}

// notes names the queues that are paused, and those whose runs wait and nobody takes.
func notes(rows []carillon.Queue) string {
	var b strings.Builder
	for i := range rows {
		q := &rows[i]
		if p := &q.Pause; !p.Since.IsZero() {
			fmt.Fprintf(&b, "The %s queue %q in namespace %s is paused since %s%s.\n", q.Kind, q.Name, q.Namespace,
				moment(p.Since.Truncate(time.Second)), because(p.Note))
		}
		if q.Unserved {
			fmt.Fprintf(&b, "Nobody takes runs of the %s queue %q in namespace %s, at one node at least: about %d wait.\n", q.Kind, q.Name,
				q.Namespace, q.Waiting())
		}
	}
	return b.String()
}

// because returns the note of a pause, if there is one, after what is paused.
func because(note string) string {
	if note == "" {
		return ""
	}
	return ": " + clip(note, 200)
}

// union returns what is in either, sorted: a node that has not answered for one page may have for the next.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// listNote says what a list over all nodes leaves out.
func listNote(shown int, rest string, unheard []string) string {
	var parts []string
	if rest != "" {
		parts = append(parts, fmt.Sprintf("These are the first %d; --limit 0 shows all.", shown))
	}
	if len(unheard) > 0 {
		parts = append(parts, "Not answered, so left out: "+strings.Join(unheard, ", ")+".")
	}
	return strings.Join(parts, " ")
}

// newWorker returns the command `carillon worker`.
func newWorker(a app) *cobra.Command {
	return newGroup("worker", "Show who is connected", newWorkerList(a))
}

// workerList holds the flags of `carillon worker list`.
type workerList struct {
	connection
	within string
	queue  string
	kind   choice
	listing
}

// newWorkerList returns the command `carillon worker list`.
func newWorkerList(a app) *cobra.Command {
	l := workerList{kind: choice{words: []string{"worker", "dapr"}, chosen: -1}}
	cmd := l.command(a, "list", "List the connections of workers and Dapr's sidecars", nil)
	cmd.Aliases = []string{"ls"}
	cmd.Long = `List the connections of workers and Dapr's sidecars to all living nodes. A worker that serves several nodes has a connection to
each. SEEN is when the node last got a message of it, CREDITS are the runs that it has room for, and IN FLIGHT the attempts that it
has. A silent one gets nothing until it sends something. VERSION is what it says that it is built of.`
	cmd.Flags().StringVarP(&l.within, "namespace", "n", "",
		"workers of this `namespace`; default: of all namespaces")
	l.completeNamespace(cmd)
	cmd.Flags().StringVar(&l.queue, "queue", "", "workers that serve the queue of this name")
	l.completeQueues(cmd, "queue")
	l.kind.add(cmd, "kind", "workers or sidecars alone")
	l.listing.add(cmd, a, &l.connection, workerColumns.words(), l.list)
	return cmd
}

func (l *workerList) list(ctx context.Context, node *client.Client, _ []string) (answer, error) {
	q := carillon.WorkerQuery{Namespace: l.within, Kind: l.kind.String(), Queue: l.queue}
	var unheard []string
	rows, rest, err := collectSorted(l.listing, workerColumns,
		func(token string, size int) ([]carillon.Worker, string, error) {
			q.PageToken, q.PageSize = token, size
			page, err := node.ListWorkers(ctx, q)
			unheard = union(unheard, page.Unheard)
			return page.Workers, page.NextPageToken, err
		})
	return answer{grid: workerColumns.grid(rows), names: namesOf(rows, workerID),
		note:    listNote(len(rows), rest, unheard),
		message: &pb.ListWorkersResponse{Workers: wire.WorkersToProto(rows), NextPageToken: rest, Unheard: unheard},
	}, err
}

func workerID(w *carillon.Worker) string { return w.ID }

var workerColumns = columns[carillon.Worker]{
	{gridColumn: gridColumn{name: "NAMESPACE"}, cell: func(w *carillon.Worker) string { return w.Namespace }},
	{gridColumn: gridColumn{name: "KIND"}, cell: func(w *carillon.Worker) string { return w.Kind }},
	{gridColumn: gridColumn{name: "ID"}, cell: func(w *carillon.Worker) string {
		if w.Silent {
			return w.ID + " (silent)"
		}
		return w.ID
	}},
	textColumn("NODE", func(w *carillon.Worker) string { return w.Node }),
	timeColumn("SINCE", func(w *carillon.Worker) time.Time { return w.Since }),
	timeColumn("SEEN", func(w *carillon.Worker) time.Time { return w.LastSeen }),
	textColumn("QUEUES", func(w *carillon.Worker) string { return clip(strings.Join(w.Queues, ", "), 60) }),
	numberColumn("CREDITS", func(w *carillon.Worker) int { return w.Credits }),
	numberColumn("IN FLIGHT", func(w *carillon.Worker) int { return w.InFlight }),
	textColumn("VERSION", func(w *carillon.Worker) string { return clip(w.Version, 40) }),
	textColumn("LABELS", func(w *carillon.Worker) string { return clip(labelsText(w.Labels), 60) }),
	wideTime("SINCE AT", func(w *carillon.Worker) time.Time { return w.Since }),
}

// labelsText returns labels as the command line takes them.
func labelsText(labels map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, key+"="+labels[key])
	}
	return strings.Join(parts, ", ")
}
