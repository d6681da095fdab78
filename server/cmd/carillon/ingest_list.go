package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// ingestList holds the flags of `carillon ingest list`.
type ingestList struct {
	connection
	within string
	listing
}

// newIngestList returns the command `carillon ingest list`.
func newIngestList(a app) *cobra.Command {
	var l ingestList
	cmd := l.command(a, "list", "List the topics that commands are taken from", nil)
	cmd.Aliases = []string{"ls"}
	cmd.Long = `List the topics, queues and streams of message brokers that the living nodes take commands from, as their --brokers files say.
LAG are the messages that no node has acknowledged, IN FLIGHT those that the nodes have received and not acknowledged, and LAST is when
the last one came. DONE, DEAD and, with -o wide, REPEATED and RETRIED count messages since each node began to read: those whose changes
are durable, those that went to the dead-letter topic, those that had been done before, and attempts that are repeated. What keeps a
node from reading is below the table.`
	cmd.Flags().StringVarP(&l.within, "namespace", "n", "",
		"ingests whose commands are for this `namespace`; default: of all namespaces")
	l.completeNamespace(cmd)
	l.listing.add(cmd, a, &l.connection, ingestColumns.words(), l.list)
	return cmd
}

func (l *ingestList) list(ctx context.Context, node *client.Client, _ []string) (answer, error) {
	q := carillon.IngestQuery{Namespace: l.within}
	var unheard []string
	rows, rest, err := collectSorted(l.listing, ingestColumns,
		func(token string, size int) ([]carillon.Ingest, string, error) {
			q.PageToken, q.PageSize = token, size
			page, err := node.ListIngests(ctx, q)
			unheard = union(unheard, page.Unheard)
			return page.Ingests, page.NextPageToken, err
		})
	return answer{grid: ingestColumns.grid(rows), text: ingestNotes(rows), names: namesOf(rows, ingestName),
		note:    listNote(len(rows), rest, unheard),
		message: &pb.ListIngestsResponse{Ingests: wire.IngestsToProto(rows), NextPageToken: rest, Unheard: unheard},
	}, err
}

func ingestName(i *carillon.Ingest) string { return i.Name }

var ingestColumns = columns[carillon.Ingest]{
	{gridColumn: gridColumn{name: "NAMESPACE"}, cell: func(i *carillon.Ingest) string { return i.Namespace }},
	{gridColumn: gridColumn{name: "INGEST"}, cell: ingestName},
	textColumn("TOPIC", func(i *carillon.Ingest) string { return i.Topic }),
	textColumn("BROKER", func(i *carillon.Ingest) string { return i.Broker }),
	{gridColumn: gridColumn{name: "STATE"}, cell: ingestState},
	{gridColumn: gridColumn{name: "LAG"}, cell: func(i *carillon.Ingest) string {
		if !i.LagKnown {
			return "-"
		}
		return strconv.FormatInt(i.Lag, 10)
	}, order: func(a, b *carillon.Ingest) int { return cmp.Compare(a.Lag, b.Lag) }},
	numberColumn("IN FLIGHT", func(i *carillon.Ingest) int { return i.InFlight }),
	timeColumn("LAST", func(i *carillon.Ingest) time.Time { return i.LastMessage }),
	numberColumn("DONE", func(i *carillon.Ingest) int { return int(i.Counts.Done) }),
	numberColumn("DEAD", func(i *carillon.Ingest) int { return int(i.Counts.Dead) }),
	textColumn("NODES", func(i *carillon.Ingest) string {
		return strings.Join(namesOf(i.Readers, func(r *carillon.IngestReader) string { return r.Node }), ", ")
	}),
	{gridColumn: gridColumn{name: "KIND", wide: true}, cell: func(i *carillon.Ingest) string { return i.Kind }},
	{gridColumn: gridColumn{name: "PRIORITY", wide: true},
		cell: func(i *carillon.Ingest) string { return strconv.Itoa(i.Priority) }},
	{gridColumn: gridColumn{name: "GROUP", wide: true},
		cell: func(i *carillon.Ingest) string { return dash(i.Group) }},
	{gridColumn: gridColumn{name: "DEAD LETTERS", wide: true},
		cell: func(i *carillon.Ingest) string { return dash(i.DeadLetter) }},
	{gridColumn: gridColumn{name: "REPEATED", wide: true},
		cell: func(i *carillon.Ingest) string { return strconv.FormatInt(i.Counts.Repeated, 10) }},
	{gridColumn: gridColumn{name: "RETRIED", wide: true},
		cell: func(i *carillon.Ingest) string { return strconv.FormatInt(i.Counts.Retried, 10) }},
	wideTime("LAST AT", func(i *carillon.Ingest) time.Time { return i.LastMessage }),
}

// ingestState says how many of the readers of a topic can take messages.
func ingestState(i *carillon.Ingest) string {
	var connected, failed, held int
	for k := range i.Readers {
		r := &i.Readers[k]
		switch {
		case !r.Connected && r.Error != "":
			failed++
		case !r.Connected:
		case r.Retrying != "":
			connected, held = connected+1, held+1
		default:
			connected++
		}
	}
	switch all := len(i.Readers); {
	case held > 0:
		return "retrying"
	case connected == all:
		return "connected"
	case connected > 0:
		return fmt.Sprintf("%d of %d connected", connected, all)
	case failed > 0:
		return "not connected"
	}
	return "connecting"
}

// ingestNotes says what keeps readers from taking messages, or the messages from being done.
func ingestNotes(rows []carillon.Ingest) string {
	var b strings.Builder
	for i := range rows {
		for k := range rows[i].Readers {
			r := &rows[i].Readers[k]
			if r.Error != "" {
				fmt.Fprintf(&b, "Node %s takes no messages of %s (%s) since %s: %s\n", r.Node, rows[i].Topic, rows[i].Name,
					moment(r.ErrorSince.Truncate(time.Second)), clip(r.Error, 200))
			}
			if r.Retrying != "" {
				fmt.Fprintf(&b, "Node %s tries messages of %s again: %s\n", r.Node, rows[i].Name, clip(r.Retrying, 200))
			}
		}
	}
	return b.String()
}
