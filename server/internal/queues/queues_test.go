package queues_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/queues"
)

// known is a node that knows some queues and connections.
type known struct {
	queues  []carillon.Queue
	workers []queues.Connection
	ingests []carillon.Ingest
	err     error
}

func (k *known) OwnQueues(_ context.Context, q queues.Query) ([]carillon.Queue, error) {
	return q.Queues(slices.Clone(k.queues)), k.err
}

func (k *known) OwnWorkers(_ context.Context, q queues.Query) ([]queues.Connection, error) {
	return q.Workers(slices.Clone(k.workers)), k.err
}

func (k *known) OwnIngests(_ context.Context, q queues.Query) ([]carillon.Ingest, error) {
	return q.Ingests(slices.Clone(k.ingests)), k.err
}

// listOf lists over nodes; those that are nil cannot be asked.
func listOf(nodes ...*known) queues.List {
	return queues.List{MACKey: []byte("key"),
		Each: func(ctx context.Context, f func(ctx context.Context, id string, n queues.Node)) (unheard []string) {
			for i, n := range nodes {
				if id := fmt.Sprint("node", i); n == nil {
					unheard = append(unheard, id)
				} else {
					f(ctx, id, n)
				}
			}
			return unheard
		}}
}

// TestPagesOfQueuesAreTheirSums holds pages of every size against what all nodes know, added up.
func TestPagesOfQueuesAreTheirSums(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		nodes := make([]*known, 1+r.IntN(4))
		sums := map[[3]string]carillon.Queue{}
		for i := range nodes {
			nodes[i] = &known{}
			for range r.IntN(20) {
				q := carillon.Queue{Namespace: fmt.Sprint("n", r.IntN(3)), Kind: []string{"worker", "http", "dapr"}[r.IntN(3)],
					Name: fmt.Sprint("q", r.IntN(4)), Ready: r.IntN(3), Limited: r.IntN(2), Staged: r.IntN(2),
					Consumers: r.IntN(3), Credits: r.IntN(9), InFlight: r.IntN(9), Unserved: r.IntN(3) == 0}
				q.Silent = r.IntN(q.Consumers + 1)
				if q.Waiting() > 0 {
					q.Oldest = time.Unix(int64(1+r.IntN(1000)), 0)
				}
				key := [3]string{q.Namespace, q.Kind, q.Name}
				if slices.ContainsFunc(nodes[i].queues, func(o carillon.Queue) bool {
					return key == [3]string{o.Namespace, o.Kind, o.Name}
				}) {
					continue // a node has a queue once
				}
				nodes[i].queues = append(nodes[i].queues, q)
				sums[key] = plus(sums[key], q)
			}
		}
		for _, filter := range []carillon.QueueQuery{{}, {Namespace: "n1"}, {Kind: "worker"}, {Namespace: "n2", Kind: "http"}} {
			var want []carillon.Queue
			for _, q := range sums {
				if (filter.Namespace == "" || q.Namespace == filter.Namespace) && (filter.Kind == "" || q.Kind == filter.Kind) {
					want = append(want, q)
				}
			}
			slices.SortFunc(want, func(a, b carillon.Queue) int {
				return slices.Compare([]string{a.Namespace, a.Kind, a.Name}, []string{b.Namespace, b.Kind, b.Name})
			})
			filter.PageSize = 1 + r.IntN(8)
			var got []carillon.Queue
			for {
				page, err := listOf(nodes...).ListQueues(t.Context(), filter)
				if err != nil || len(page.Queues) > filter.PageSize || page.Unheard != nil {
					t.Fatalf("%+v, %v", page, err)
				}
				got = append(got, page.Queues...)
				if filter.PageToken = page.NextPageToken; filter.PageToken == "" {
					break
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, %+v:\n%+v, want\n%+v", seed, filter, got, want)
			}
		}
	}
}

// plus adds up a queue of two nodes.
func plus(a, b carillon.Queue) carillon.Queue {
	b.Ready, b.Limited, b.Staged = a.Ready+b.Ready, a.Limited+b.Limited, a.Staged+b.Staged
	b.Consumers, b.Silent = a.Consumers+b.Consumers, a.Silent+b.Silent
	b.Credits, b.InFlight = a.Credits+b.Credits, a.InFlight+b.InFlight
	if b.Oldest.IsZero() || !a.Oldest.IsZero() && a.Oldest.Before(b.Oldest) {
		b.Oldest = a.Oldest
	}
	b.Unserved = a.Unserved || b.Unserved // each node hands out what waits in its own partitions
	return b
}

// TestPagesAreBoundedInBytes, as are the answers of nodes. Every row is in one page, however large it is.
func TestPagesAreBoundedInBytes(t *testing.T) {
	const most, rows = 3 << 20, 300
	r := rand.New(rand.NewPCG(1, 0))
	nodes := make([]*known, 3)
	for i := range nodes {
		nodes[i] = &known{}
	}
	name := func(n int) string { return strings.Repeat("x", n) }
	for i := range rows {
		types := make([]string, []int{1, 600, 4096}[r.IntN(3)])
		for i := range types {
			types[i] = name(r.IntN(513))
		}
		if i%100 == 7 {
			types = []string{name(most + 1)}
		}
		at := nodes[r.IntN(r.IntN(3)+1)] // most are of one node
		at.workers = append(at.workers, queues.Connection{Nth: uint64(i), Worker: carillon.Worker{Namespace: "default",
			Kind: "dapr", ID: fmt.Sprint("w", r.IntN(1000)), InFlight: i, Queues: types, Labels: map[string]string{"k": name(r.IntN(4000))}}})
		at.queues = append(at.queues, carillon.Queue{Namespace: "default", Kind: "http", Consumers: 1,
			Name: fmt.Sprint(name(r.IntN(100_000)), i)})
	}
	bounded := func(what string, m proto.Message, n int) {
		t.Helper()
		if size := proto.Size(m); size > most && n > 1 {
			t.Errorf("%s: %d bytes in %d rows", what, size, n)
		}
	}
	seen, last := map[string]int{}, ""
	for q := (carillon.WorkerQuery{PageSize: carillon.MaxBatch}); ; {
		page, err := listOf(nodes...).ListWorkers(t.Context(), q)
		if err != nil || len(page.Workers) == 0 {
			t.Fatalf("%d rows, %v", len(page.Workers), err)
		}
		bounded("a page", &pb.ListWorkersResponse{Workers: wire.WorkersToProto(page.Workers)}, len(page.Workers))
		for _, w := range page.Workers {
			if seen[fmt.Sprint("worker", w.InFlight)]++; w.ID < last {
				t.Errorf("%s comes after %s", w.ID, last)
			}
			last = w.ID
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			break
		}
	}
	for q := (carillon.QueueQuery{PageSize: carillon.MaxBatch}); ; {
		page, err := listOf(nodes...).ListQueues(t.Context(), q)
		if err != nil || len(page.Queues) == 0 {
			t.Fatalf("%d rows, %v", len(page.Queues), err)
		}
		bounded("a page", &pb.ListQueuesResponse{Queues: wire.QueuesToProto(page.Queues)}, len(page.Queues))
		for _, row := range page.Queues {
			seen[row.Name]++
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			break
		}
	}
	if len(seen) != 2*rows {
		t.Errorf("%d rows, want %d", len(seen), 2*rows)
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%.20s is there %d times", name, n)
		}
	}
	for _, node := range nodes {
		own, _ := node.OwnWorkers(t.Context(), queues.Query{Limit: carillon.MaxBatch + 1}) // it has no error
		answer := &pb.ListWorkersResponse{}
		for i := range own[:max(0, len(own)-1)] {
			answer.Workers = append(answer.Workers, wire.WorkerToProto(&own[i].Worker))
		}
		bounded("an answer but its last row", answer, len(answer.GetWorkers()))
	}
}

// TestConnectionsOfOneIDAreAllListed: several processes may have given themselves the same id.
func TestConnectionsOfOneIDAreAllListed(t *testing.T) {
	var a, b known
	for i := range 7 {
		w := carillon.Worker{Namespace: "default", Kind: "worker", ID: "me", Node: "a", InFlight: i, Queues: []string{"q"}}
		a.workers = append(a.workers, queues.Connection{Worker: w, Nth: uint64(i)})
		w.Node, w.Queues = "b", []string{"other", "q2"}
		b.workers = append(b.workers, queues.Connection{Worker: w, Nth: uint64(i)})
	}
	count := func(q carillon.WorkerQuery) map[string]int {
		seen := map[string]int{}
		for {
			page, err := listOf(&a, &b).ListWorkers(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range page.Workers {
				seen[fmt.Sprint(w.Node, w.InFlight)]++
			}
			if q.PageToken = page.NextPageToken; q.PageToken == "" {
				return seen
			}
		}
	}
	for size := 1; size < 20; size++ {
		for queue, want := range map[string]int{"": 14, "q": 7, "q2": 7, "q3": 0} {
			seen := count(carillon.WorkerQuery{PageSize: size, Queue: queue})
			if len(seen) != want {
				t.Errorf("pages of %d, queue %q: %v", size, queue, seen)
			}
			for id, n := range seen {
				if n != 1 {
					t.Errorf("pages of %d: %s is there %d times", size, id, n)
				}
			}
		}
	}
}

// TestWhoDoesNotAnswerIsNamed, and the rest is there.
func TestWhoDoesNotAnswerIsNamed(t *testing.T) {
	answers := &known{queues: []carillon.Queue{{Namespace: "default", Kind: "worker", Name: "q", Ready: 1}},
		workers: []queues.Connection{{Worker: carillon.Worker{ID: "w"}}}}
	l := listOf(nil, &known{err: errors.New("broken")}, answers, nil)
	page, err := l.ListQueues(t.Context(), carillon.QueueQuery{})
	if err != nil || len(page.Queues) != 1 || !slices.Equal(page.Unheard, []string{"node0", "node1", "node3"}) {
		t.Errorf("%+v, %v", page, err)
	}
	workers, err := l.ListWorkers(t.Context(), carillon.WorkerQuery{})
	if err != nil || len(workers.Workers) != 1 || len(workers.Unheard) != 3 {
		t.Errorf("%+v, %v", workers, err)
	}
}

// TestWrongListsAreRefused by the field that is wrong.
func TestWrongListsAreRefused(t *testing.T) {
	node := &known{}
	for i := range 3 {
		node.queues = append(node.queues, carillon.Queue{Namespace: "default", Kind: "worker", Name: fmt.Sprint(i), Ready: 1})
	}
	l := listOf(node)
	page, err := l.ListQueues(t.Context(), carillon.QueueQuery{PageSize: 1})
	if err != nil || page.NextPageToken == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	for field, q := range map[string]carillon.QueueQuery{
		"namespace":  {Namespace: "no/slash"},
		"kind":       {Kind: "smoke"},
		"page_size":  {PageSize: carillon.MaxBatch + 1},
		"page_token": {Kind: "worker", PageToken: page.NextPageToken}, // of the list of all kinds
	} {
		if _, err := l.ListQueues(t.Context(), q); fieldOf(err) != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for field, q := range map[string]carillon.WorkerQuery{
		"namespace":  {Namespace: "no/slash"},
		"kind":       {Kind: "http"},
		"queue":      {Queue: "a\x00b"},
		"page_size":  {PageSize: -1},
		"page_token": {PageToken: page.NextPageToken}, // of queues
	} {
		if _, err := l.ListWorkers(t.Context(), q); fieldOf(err) != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func fieldOf(err error) string {
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok || e.Kind != carillon.InvalidArgument {
		return fmt.Sprint("no error of a field: ", err)
	}
	return e.Field
}

// TestWhoTakesAQueueIsAskedOfAllNodes, and those that do not answer are named.
func TestWhoTakesAQueueIsAskedOfAllNodes(t *testing.T) {
	rows := func(n int) []carillon.Queue {
		return []carillon.Queue{{Namespace: "n", Kind: "worker", Name: "p", Consumers: 9},
			{Namespace: "n", Kind: "worker", Name: "q", Consumers: n, Silent: 1, Credits: 2, InFlight: 3}}
	}
	l := listOf(&known{queues: rows(1)}, &known{queues: rows(2)}, nil)
	name := delivery.Queue{Namespace: "n", Kind: "worker", Address: "q"}
	row, unheard := l.Consumers(t.Context(), name)
	if row.Consumers != 3 || row.Silent != 2 || row.Credits != 4 || row.InFlight != 6 || len(unheard) != 1 {
		t.Errorf("%+v, %v", row, unheard)
	}
}
