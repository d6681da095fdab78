package queues_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// TestPagesOfIngestsAreTheirSums holds pages of every size against what all nodes know, put together.
func TestPagesOfIngestsAreTheirSums(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		nodes := make([]*known, 1+r.IntN(4))
		want := map[[3]string]carillon.Ingest{}
		for i := range nodes {
			nodes[i] = &known{}
			for range r.IntN(12) {
				row := randomIngest(r, fmt.Sprint("node", i))
				key := [3]string{row.Namespace, row.Name, row.Topic}
				if slices.ContainsFunc(nodes[i].ingests, func(o carillon.Ingest) bool {
					return key == [3]string{o.Namespace, o.Name, o.Topic}
				}) {
					continue
				}
				nodes[i].ingests = append(nodes[i].ingests, row)
				sum, known := want[key]
				if !known {
					sum = row
					sum.Readers = nil
				}
				sum.Readers = append(sum.Readers, row.Readers...)
				want[key] = sum
			}
		}
		for size := 1; size < 8; size++ {
			q := carillon.IngestQuery{PageSize: size}
			var got []carillon.Ingest
			for {
				page, err := listOf(nodes...).ListIngests(t.Context(), q)
				if err != nil || len(page.Ingests) > size || page.Unheard != nil {
					t.Fatalf("%d rows, %v", len(page.Ingests), err)
				}
				got = append(got, page.Ingests...)
				if q.PageToken = page.NextPageToken; q.PageToken == "" {
					break
				}
			}
			if len(got) != len(want) {
				t.Fatalf("seed %d, size %d: %d topics, not %d", seed, size, len(got), len(want))
			}
			for i := range got {
				w := want[[3]string{got[i].Namespace, got[i].Name, got[i].Topic}]
				w.IngestState = slowly(&w)
				if !reflect.DeepEqual(got[i], w) {
					t.Fatalf("seed %d, size %d:\n%+v, want\n%+v", seed, size, got[i], w)
				}
			}
		}
	}
}

// randomIngest is a topic as a node knows it. Ingest 0 is of Kafka.
func randomIngest(r *rand.Rand, node string) carillon.Ingest {
	name := r.IntN(4)
	s := carillon.IngestState{InFlight: r.IntN(3), Counts: carillon.IngestCounts{Done: r.Int64N(9), Repeated: r.Int64N(9),
		Dead: r.Int64N(9), Retried: r.Int64N(9)}}
	if s.LagKnown = r.IntN(3) > 0; s.LagKnown {
		s.Lag = r.Int64N(5)
	}
	if r.IntN(2) > 0 {
		s.LastMessage = time.Unix(r.Int64N(1000), 0)
	}
	return carillon.Ingest{Namespace: fmt.Sprint("n", r.IntN(2)), Name: fmt.Sprint("i", name),
		Kind: []string{"kafka", "redis", "amqp", "nats"}[name], Topic: fmt.Sprint("t", r.IntN(3)), IngestState: s,
		Readers: []carillon.IngestReader{{Node: node, Connected: r.IntN(2) > 0, IngestState: s}}}
}

// slowly is the state of all readers.
func slowly(i *carillon.Ingest) (sum carillon.IngestState) {
	var lags, connected []int64
	var has, hasConnected []int64 // how many of each lag are the reader's own
	for _, r := range i.Readers {
		c := r.Counts
		sum.InFlight += r.InFlight
		sum.Counts = carillon.IngestCounts{Done: sum.Counts.Done + c.Done, Repeated: sum.Counts.Repeated + c.Repeated,
			Dead: sum.Counts.Dead + c.Dead, Retried: sum.Counts.Retried + c.Retried}
		if sum.LastMessage.IsZero() || r.LastMessage.After(sum.LastMessage) {
			sum.LastMessage = r.LastMessage
		}
		if r.LagKnown {
			lags, has = append(lags, r.Lag), append(has, int64(r.InFlight))
		}
		if r.LagKnown && r.Connected {
			connected, hasConnected = append(connected, r.Lag), append(hasConnected, int64(r.InFlight))
		}
	}
	if slices.ContainsFunc(i.Readers, func(r carillon.IngestReader) bool { return r.Connected }) {
		lags, has = connected, hasConnected
	}
	if sum.LagKnown = len(lags) > 0; !sum.LagKnown {
		return sum
	}
	switch i.Kind {
	case "redis":
		sum.Lag = slices.Max(lags)
		return sum
	case "amqp", "nats":
		waiting := make([]int64, len(lags)) // with the broker, as each reader says
		for k, lag := range lags {
			if waiting[k] = lag - has[k]; waiting[k] < 0 {
				waiting[k], has[k] = 0, lag
			}
			sum.Lag += has[k]
		}
		sum.Lag += slices.Max(waiting)
		return sum
	}
	for _, lag := range lags {
		sum.Lag += lag
	}
	return sum
}

// TestUnheardNodesOfIngests are named, whether they fail or cannot be asked.
func TestUnheardNodesOfIngests(t *testing.T) {
	one := carillon.Ingest{Namespace: "n", Name: "i", Kind: "redis", Topic: "t",
		Readers: []carillon.IngestReader{{Node: "node0", Connected: true}}}
	page, err := listOf(&known{ingests: []carillon.Ingest{one}}, nil, &known{err: fmt.Errorf("away")}).
		ListIngests(t.Context(), carillon.IngestQuery{})
	if err != nil || !reflect.DeepEqual(page, carillon.IngestPage{Ingests: []carillon.Ingest{one},
		Unheard: []string{"node1", "node2"}}) {
		t.Errorf("%+v, %v", page, err)
	}
	for _, q := range []carillon.IngestQuery{{Namespace: "a/b"}, {PageSize: -1}, {PageToken: "x"}} {
		if _, err := listOf(&known{}).ListIngests(t.Context(), q); carillon.KindOf(err) != carillon.InvalidArgument {
			t.Errorf("%+v: %v", q, err)
		}
	}
}
