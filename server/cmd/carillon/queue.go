package main

import (
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
	paging
}

var queueKindWords = append([]string{"worker", "http", "dapr"}, delivery.BrokerKinds...)

// newQueueList returns the command `carillon queue list`.
func newQueueList(a app) *cobra.Command {
	l := queueList{kind: choice{words: queueKindWords, chosen: -1}}
	cmd := l.command(a, "list", "List the queues that are served, in which runs wait, or that are paused", l.list)
	cmd.Aliases = []string{"ls"}
	cmd.Long = `List the queues that are served, in which runs wait, or that are paused, over all living nodes. READY runs wait in memory for a
consumer or for room, LIMITED ones for a permit of a limit, STAGED ones in the store. OLDEST is when the oldest of these was due. CONSUMERS
are the connections that serve the queue, CREDITS the runs that they have room for, and IN FLIGHT the attempts that they have.`
	cmd.Flags().StringVarP(&l.within, "namespace", "n", "",
		"queues of this `namespace`; default: of all namespaces")
	l.kind.add(cmd, "kind", "queues of targets of this kind")
	l.paging.add(cmd)
	return cmd
}

func (l *queueList) list(ctx context.Context, node *client.Client, _ []string) (answer, error) {
	q := carillon.QueueQuery{Namespace: l.within, Kind: l.kind.String()}
	var unheard []string
	rows, rest, err := collect(l.paging, func(token string, size int) ([]carillon.Queue, string, error) {
		q.PageToken, q.PageSize = token, size
		page, err := node.ListQueues(ctx, q)
		unheard = union(unheard, page.Unheard)
		return page.Queues, page.NextPageToken, err
	})
	columns := []string{"NAMESPACE", "KIND", "QUEUE", "READY", "LIMITED", "STAGED", "OLDEST", "CONSUMERS",
		"CREDITS", "IN FLIGHT"}
	return answer{text: table(columns, rows, queueRow) + notes(rows), note: listNote(len(rows), rest, unheard),
		message: &pb.ListQueuesResponse{Queues: wire.QueuesToProto(rows), NextPageToken: rest, Unheard: unheard},
	}, err
}

func queueRow(q *carillon.Queue) []string {
	consumers := strconv.Itoa(q.Consumers)
	if q.Silent > 0 {
		consumers += fmt.Sprintf(" (%d silent)", q.Silent)
	}
	return []string{q.Namespace, q.Kind, q.Name, strconv.Itoa(q.Ready), strconv.Itoa(q.Limited),
		strconv.Itoa(q.Staged), dash(moment(q.Oldest)), consumers, strconv.Itoa(q.Credits),
		strconv.Itoa(q.InFlight)}
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
	paging
}

// newWorkerList returns the command `carillon worker list`.
func newWorkerList(a app) *cobra.Command {
	l := workerList{kind: choice{words: []string{"worker", "dapr"}, chosen: -1}}
	cmd := l.command(a, "list", "List the connections of workers and Dapr's sidecars", l.list)
	cmd.Aliases = []string{"ls"}
	cmd.Long = `List the connections of workers and Dapr's sidecars to all living nodes. A worker that serves several nodes has a connection to
each. SEEN is when the node last got a message of it, CREDITS are the runs that it has room for, and IN FLIGHT the attempts that it
has. A silent one gets nothing until it sends something. VERSION is what it says that it is built of.`
	cmd.Flags().StringVarP(&l.within, "namespace", "n", "",
		"workers of this `namespace`; default: of all namespaces")
	cmd.Flags().StringVar(&l.queue, "queue", "", "workers that serve the queue of this name")
	l.kind.add(cmd, "kind", "workers or sidecars alone")
	l.paging.add(cmd)
	return cmd
}

func (l *workerList) list(ctx context.Context, node *client.Client, _ []string) (answer, error) {
	q := carillon.WorkerQuery{Namespace: l.within, Kind: l.kind.String(), Queue: l.queue}
	var unheard []string
	rows, rest, err := collect(l.paging, func(token string, size int) ([]carillon.Worker, string, error) {
		q.PageToken, q.PageSize = token, size
		page, err := node.ListWorkers(ctx, q)
		unheard = union(unheard, page.Unheard)
		return page.Workers, page.NextPageToken, err
	})
	columns := []string{"NAMESPACE", "KIND", "ID", "NODE", "SINCE", "SEEN", "QUEUES", "CREDITS", "IN FLIGHT",
		"VERSION", "LABELS"}
	return answer{text: table(columns, rows, workerRow), note: listNote(len(rows), rest, unheard),
		message: &pb.ListWorkersResponse{Workers: wire.WorkersToProto(rows), NextPageToken: rest, Unheard: unheard},
	}, err
}

func workerRow(w *carillon.Worker) []string {
	id := w.ID
	if w.Silent {
		id += " (silent)"
	}
	return []string{w.Namespace, w.Kind, id, w.Node, moment(w.Since.Truncate(time.Second)),
		dash(moment(w.LastSeen.Truncate(time.Second))), clip(strings.Join(w.Queues, ", "), 60),
		strconv.Itoa(w.Credits), strconv.Itoa(w.InFlight), dash(clip(w.Version, 40)),
		dash(clip(labelsText(w.Labels), 60))}
}

// labelsText returns labels as the command line takes them.
func labelsText(labels map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, key+"="+labels[key])
	}
	return strings.Join(parts, ", ")
}
