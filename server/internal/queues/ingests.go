package queues

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// placeOfIngest has the name of the ingest as the kind, and the topic as the address.
func placeOfIngest(i *carillon.Ingest) Place {
	return Place{Queue: delivery.Queue{Namespace: i.Namespace, Kind: i.Name, Address: i.Topic}}
}

func sizeOfIngest(i *carillon.Ingest) int {
	bytes := rowBytes + len(i.Namespace) + len(i.Name) + len(i.Broker) + len(i.Kind) + len(i.Topic) +
		len(i.Group) + len(i.DeadLetter)
	for k := range i.Readers {
		r := &i.Readers[k]
		bytes += rowBytes + len(r.Node) + len(r.Error) + len(r.Retrying)
	}
	return bytes
}

// Ingests returns the first of these topics of ingests that the query selects, in their order, as far as a
// page may hold them and one more.
func (q *Query) Ingests(of []carillon.Ingest) []carillon.Ingest {
	of = first(q, of, placeOfIngest)
	return of[:min(len(of), fitting(of, q.Limit, sizeOfIngest)+1)]
}

// ListIngests implements [carillon.Ingests].
func (l List) ListIngests(ctx context.Context, q carillon.IngestQuery) (carillon.IngestPage, error) {
	if err := q.Validate(); err != nil {
		return carillon.IngestPage{}, err
	}
	pages := l.pages("ingests", q.Namespace)
	after, err := placeIn(pages, q.PageToken)
	if err != nil {
		return carillon.IngestPage{}, err
	}
	size := cmp.Or(q.PageSize, defaultPage)
	query := Query{Namespace: q.Namespace, After: after, Limit: size + 1}
	rows, unheard := ask(ctx, l, func(ctx context.Context, n Node) ([]carillon.Ingest, error) {
		return n.OwnIngests(ctx, query)
	})
	query.Limit = len(rows)
	rows = merged(first(&query, rows, placeOfIngest))
	n := fitting(rows, size, sizeOfIngest)
	page := carillon.IngestPage{Ingests: rows[:n], Unheard: unheard}
	if len(rows) > n {
		page.NextPageToken = tokenAt(pages, placeOfIngest(&rows[n-1]))
	}
	return page, nil
}

// merged puts together what nodes know of the same topic. They are sorted. While the files of the nodes
// differ, what is said of the broker is what the first of them says.
func merged(rows []carillon.Ingest) (all []carillon.Ingest) {
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && placeOfIngest(&rows[n]) == placeOfIngest(&rows[0]) {
			n++
		}
		slices.SortStableFunc(rows[:n], func(a, b carillon.Ingest) int {
			return strings.Compare(firstReader(&a), firstReader(&b))
		})
		sum := rows[0]
		sum.Readers, sum.IngestState = nil, carillon.IngestState{}
		for i := range rows[:n] {
			sum.Readers = append(sum.Readers, rows[i].Readers...)
		}
		sum.IngestState = stateOf(sum.Kind, sum.Readers)
		all, rows = append(all, sum), rows[n:]
	}
	return all
}

func firstReader(i *carillon.Ingest) string {
	if len(i.Readers) == 0 {
		return ""
	}
	return i.Readers[0].Node
}

// stateOf adds up how far the readers of a topic are.
func stateOf(kind string, readers []carillon.IngestReader) (sum carillon.IngestState) {
	connected := slices.ContainsFunc(readers, func(r carillon.IngestReader) bool { return r.Connected })
	var own int64 // of those that readers have, and the broker does not count for others
	for i := range readers {
		r := &readers[i]
		sum.InFlight += r.InFlight
		if r.LastMessage.After(sum.LastMessage) {
			sum.LastMessage = r.LastMessage
		}
		sum.Counts.Done, sum.Counts.Repeated = sum.Counts.Done+r.Counts.Done, sum.Counts.Repeated+r.Counts.Repeated
		sum.Counts.Dead, sum.Counts.Retried = sum.Counts.Dead+r.Counts.Dead, sum.Counts.Retried+r.Counts.Retried
		switch {
		case !r.LagKnown || connected && !r.Connected: // it is what the reader knew before
		case kind == "kafka":
			sum.Lag, sum.LagKnown = sum.Lag+r.Lag, true
		case kind == "amqp" || kind == "nats":
			has := min(int64(r.InFlight), r.Lag) // what was lost with a connection is not in the lag
			sum.Lag, sum.LagKnown, own = max(sum.Lag, r.Lag-has), true, own+has
		default:
			sum.Lag, sum.LagKnown = max(sum.Lag, r.Lag), true
		}
	}
	sum.Lag += own
	return sum
}
