// Package queues lists what waits in queues, who takes it, and what comes from brokers, over the nodes of a
// cluster.
//
// Each node knows its part only: what waits in the partitions that it owns, the consumers that are connected
// to it, and the messages that it takes. [List] asks all nodes for the first rows after a place, and adds
// them up. As each node answers with its first rows in the common order, the first rows of all are complete.
package queues

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/pagetoken"
)

// Node is a node, as others ask it. It answers for itself alone.
type Node interface {
	// OwnQueues returns the first queues that the query selects, in their order.
	OwnQueues(ctx context.Context, q Query) ([]carillon.Queue, error)
	// OwnWorkers returns the first connections that the query selects, in their order.
	OwnWorkers(ctx context.Context, q Query) ([]Connection, error)
	// OwnIngests returns the first topics of ingests that the query selects, in their order, each with the node
	// as its reader.
	OwnIngests(ctx context.Context, q Query) ([]carillon.Ingest, error)
}

// Query selects queues, connections or topics of ingests.
type Query struct {
	Namespace, Kind string // empty: any
	// Of connections: that serve the queue of this name. Of queues: that one alone, and nothing of what waits
	// there. Empty: any.
	Queue string
	After Place
	Limit int // more than 0
}

// Place is a place in the order of queues or of connections. The zero value is before the first.
type Place struct {
	delivery.Queue        // of a connection: its id in place of a queue's name
	Node           string // of a connection
	Nth            uint64 // of a connection: which one of its node
}

// Compare orders places.
func (p Place) Compare(o Place) int {
	return cmp.Or(p.Queue.Compare(o.Queue), cmp.Compare(p.Node, o.Node), cmp.Compare(p.Nth, o.Nth))
}

// Connection is a worker's connection to a node.
type Connection struct {
	carillon.Worker
	Nth uint64 // which one of its node, in the order in which they came
}

func (c *Connection) place() Place {
	return Place{delivery.Queue{Namespace: c.Namespace, Kind: c.Kind, Address: c.ID}, c.Node, c.Nth}
}

func placeOf(q *carillon.Queue) Place {
	return Place{Queue: delivery.Queue{Namespace: q.Namespace, Kind: q.Kind, Address: q.Name}}
}

// Queues returns the first of these queues that the query selects, in their order, as far as a page may hold
// them and one more.
func (q *Query) Queues(of []carillon.Queue) []carillon.Queue {
	if q.Queue != "" {
		of = slices.DeleteFunc(of, func(row carillon.Queue) bool { return row.Name != q.Queue })
	}
	of = first(q, of, placeOf)
	return of[:min(len(of), fitting(of, q.Limit, sizeOfQueue)+1)]
}

// Workers does the same for connections.
func (q *Query) Workers(of []Connection) []Connection {
	if q.Queue != "" {
		of = slices.DeleteFunc(of, func(c Connection) bool { return !slices.Contains(c.Queues, q.Queue) })
	}
	of = first(q, of, (*Connection).place)
	return of[:min(len(of), fitting(of, q.Limit, (*Connection).size)+1)]
}

// pageBytes bounds the size of a page: it ends before it exceeds this, but has at least one row. It is below
// the 4 MiB that a gRPC message may have, and more than any row: a sidecar of the most types that it may
// name, with the longest names, is 2.2 MiB.
//
// Nodes end their answers by the same rule, with one row more. No page goes beyond the end of such an answer:
// in the common order its rows, with those of other nodes between them, are too large before.
const pageBytes = 3 << 20

// fitting returns how many of the rows a page has, of at most a number of rows.
func fitting[T any](rows []T, most int, size func(*T) int) int {
	bytes := 0
	for i := range rows[:min(most, len(rows))] {
		if bytes += size(&rows[i]); bytes > pageBytes && i > 0 {
			return i
		}
	}
	return min(most, len(rows))
}

// rowBytes is more than a row takes beside its strings, and stringBytes beside one of many strings.
const rowBytes, stringBytes = 144, 8

func sizeOfQueue(q *carillon.Queue) int {
	return rowBytes + len(q.Namespace) + len(q.Kind) + len(q.Name) + len(q.Pause.Note)
}

func (c *Connection) size() int {
	bytes := rowBytes + len(c.Namespace) + len(c.Kind) + len(c.ID) + len(c.Node) + len(c.Version)
	for k, v := range c.Labels {
		bytes += 2*stringBytes + len(k) + len(v)
	}
	for _, q := range c.Queues {
		bytes += stringBytes + len(q)
	}
	return bytes
}

func first[T any](q *Query, of []T, place func(*T) Place) []T {
	of = slices.DeleteFunc(of, func(row T) bool {
		at := place(&row)
		return q.Namespace != "" && at.Namespace != q.Namespace || q.Kind != "" && at.Kind != q.Kind ||
			at.Compare(q.After) <= 0
	})
	slices.SortFunc(of, func(a, b T) int { return place(&a).Compare(place(&b)) })
	return of[:min(len(of), q.Limit)]
}

// List lists the queues, workers and ingests of all nodes.
type List struct {
	// Each calls f for every living node, concurrently, with a ctx that bounds how long they may take, and
	// waits. It returns those that cannot be asked.
	Each   func(ctx context.Context, f func(ctx context.Context, id string, n Node)) (unheard []string)
	MACKey []byte // of page tokens; the same on all nodes
}

const defaultPage = 100

// ListQueues implements [carillon.Queues].
func (l List) ListQueues(ctx context.Context, q carillon.QueueQuery) (carillon.QueuePage, error) {
	if err := q.Validate(); err != nil {
		return carillon.QueuePage{}, err
	}
	pages := l.pages("queues", q.Namespace, q.Kind)
	after, err := placeIn(pages, q.PageToken)
	if err != nil {
		return carillon.QueuePage{}, err
	}
	size := cmp.Or(q.PageSize, defaultPage)
	query := Query{Namespace: q.Namespace, Kind: q.Kind, After: after, Limit: size + 1}
	rows, unheard := ask(ctx, l, func(ctx context.Context, n Node) ([]carillon.Queue, error) {
		return n.OwnQueues(ctx, query)
	})
	query.Limit = len(rows)
	rows = sums(first(&query, rows, placeOf))
	n := fitting(rows, size, sizeOfQueue)
	page := carillon.QueuePage{Queues: rows[:n], Unheard: unheard}
	if len(rows) > n {
		page.NextPageToken = tokenAt(pages, placeOf(&rows[n-1]))
	}
	return page, nil
}

// Consumers returns who takes the runs of a queue, over all nodes, and which of them have not answered.
// Nothing is said of what waits there.
func (l List) Consumers(ctx context.Context, name delivery.Queue) (row carillon.Queue, unheard []string) {
	query := Query{Namespace: name.Namespace, Kind: name.Kind, Queue: name.Address, Limit: carillon.MaxBatch}
	rows, unheard := ask(ctx, l, func(ctx context.Context, n Node) ([]carillon.Queue, error) {
		return n.OwnQueues(ctx, query)
	})
	for _, sum := range sums(rows) { // one, if anybody serves it
		row = sum
	}
	return row, unheard
}

// sums adds up what nodes know of the same queue. They are sorted.
func sums(rows []carillon.Queue) (all []carillon.Queue) {
	for i := range rows {
		q := &rows[i]
		if len(all) == 0 || placeOf(&all[len(all)-1]) != placeOf(q) {
			all = append(all, *q)
			continue
		}
		sum := &all[len(all)-1]
		if !q.Oldest.IsZero() && (sum.Oldest.IsZero() || q.Oldest.Before(sum.Oldest)) {
			sum.Oldest = q.Oldest
		}
		sum.Ready, sum.Limited, sum.Staged = sum.Ready+q.Ready, sum.Limited+q.Limited, sum.Staged+q.Staged
		sum.Consumers, sum.Silent = sum.Consumers+q.Consumers, sum.Silent+q.Silent
		sum.Credits, sum.InFlight = sum.Credits+q.Credits, sum.InFlight+q.InFlight
		sum.Unserved = sum.Unserved || q.Unserved
		if sum.Pause.Since.IsZero() {
			sum.Pause = q.Pause
		}
	}
	return all
}

// ListWorkers implements [carillon.Queues].
func (l List) ListWorkers(ctx context.Context, q carillon.WorkerQuery) (carillon.WorkerPage, error) {
	if err := q.Validate(); err != nil {
		return carillon.WorkerPage{}, err
	}
	pages := l.pages("workers", q.Namespace, q.Kind, q.Queue)
	after, err := placeIn(pages, q.PageToken)
	if err != nil {
		return carillon.WorkerPage{}, err
	}
	size := cmp.Or(q.PageSize, defaultPage)
	query := Query{Namespace: q.Namespace, Kind: q.Kind, Queue: q.Queue, After: after, Limit: size + 1}
	rows, unheard := ask(ctx, l, func(ctx context.Context, n Node) ([]Connection, error) {
		return n.OwnWorkers(ctx, query)
	})
	rows = query.Workers(rows)
	page := carillon.WorkerPage{Unheard: unheard}
	n := fitting(rows, size, (*Connection).size)
	for i := range n {
		page.Workers = append(page.Workers, rows[i].Worker)
	}
	if len(rows) > n {
		page.NextPageToken = tokenAt(pages, rows[n-1].place())
	}
	return page, nil
}

// ask returns the rows of all nodes, and which of them have not answered.
func ask[T any](ctx context.Context, l List,
	f func(ctx context.Context, n Node) ([]T, error)) (rows []T, unheard []string) {
	var mu sync.Mutex
	not := l.Each(ctx, func(ctx context.Context, id string, n Node) {
		own, err := f(ctx, n)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			unheard = append(unheard, id)
		}
		rows = append(rows, own...)
	})
	unheard = append(unheard, not...)
	slices.Sort(unheard)
	return rows, unheard
}

// pages returns the page tokens of a list.
func (l List) pages(names ...string) pagetoken.List {
	return pagetoken.List{Names: names, MACKey: l.MACKey}
}

// tokenAt returns the token of the page after a place. A place has strings and a number only, which can
// always be encoded.
func tokenAt(pages pagetoken.List, p Place) string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return pages.At(text)
}

// placeIn is the reverse.
func placeIn(pages pagetoken.List, token string) (p Place, err error) {
	text, err := pages.Place(token)
	if err == nil && text != nil {
		err = json.Unmarshal(text, &p)
	}
	return p, err
}
