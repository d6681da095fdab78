package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// TestRunFilter: each filter lets pass what it says, and nothing else.
func TestRunFilter(t *testing.T) {
	at := time.Unix(100, 0)
	run := carillon.Run{Job: "mail/a", Due: at, Errors: []carillon.AttemptError{{Message: "no route"},
		{Message: "no money"}}}
	queue := delivery.Queue{Kind: "worker", Address: "mail"}
	labels := map[string]string{"team": "a", "empty": ""}
	for _, c := range []struct {
		q      carillon.RunQuery
		passes bool
	}{
		{carillon.RunQuery{}, true},
		{carillon.RunQuery{Prefix: "mail/"}, true},
		{carillon.RunQuery{Prefix: "mail/b"}, false},
		{carillon.RunQuery{From: at, Until: at.Add(1)}, true},
		{carillon.RunQuery{From: at.Add(1)}, false},
		{carillon.RunQuery{Until: at}, false},
		{carillon.RunQuery{Error: "money"}, true},
		{carillon.RunQuery{Error: "route"}, false}, // not the last one
		{carillon.RunQuery{Error: "Money"}, false},
		{carillon.RunQuery{Queue: "mail", Kind: "worker"}, true},
		{carillon.RunQuery{Queue: "mai"}, false},
		{carillon.RunQuery{Kind: "http"}, false},
		{carillon.RunQuery{Label: "team"}, true},
		{carillon.RunQuery{Label: "team=a"}, true},
		{carillon.RunQuery{Label: "team=b"}, false},
		{carillon.RunQuery{Label: "team="}, false},
		{carillon.RunQuery{Label: "empty="}, true},
		{carillon.RunQuery{Label: "other"}, false},
	} {
		f := newRunFilter(&c.q)
		if got := f.unfinished(&run) && f.facts(queue, labels); got != c.passes {
			t.Errorf("%+v lets it pass: %v", c.q, got)
		}
		rec := store.RunRecord{Key: carillon.Key{Name: run.Job}, Errors: run.Errors, Labels: labels,
			Queue: queue.String()}
		timed := !c.q.From.IsZero() || !c.q.Until.IsZero() // the query of the store sees to that
		if got := f.finished(&rec); got != c.passes && !timed {
			t.Errorf("%+v lets it pass once it is finished: %v", c.q, got)
		}
	}
}

// readCounter counts what is read of a shard.
type readCounter struct {
	store.Shard
	refs  []store.Ref
	calls int
}

func (s *readCounter) Read(ctx context.Context, refs []store.Ref) ([]store.Record, error) {
	s.refs = append(s.refs, refs...)
	s.calls++
	return s.Shard.Read(ctx, refs)
}

// TestSpecsOfAPageAreReadOnce: the spec of a job whose pending runs are on a page is read once, a long one by
// itself, and several at a time.
func TestSpecsOfAPageAreReadOnce(t *testing.T) {
	const jobs = 20
	b := &store.Batch{}
	var next []store.Record
	for i := range jobs {
		j := carillon.Job{Namespace: "ns", Name: fmt.Sprintf("%02d", i), Target: carillon.WorkerQueue(fmt.Sprint(i))}
		b.Puts = append(b.Puts, recordOf(j, store.State{}))
		for seq := range uint64(3) {
			next = append(next, store.Record{Ref: store.Ref{Key: j.Key(), Seq: seq + 1}})
		}
	}
	own := carillon.Job{Namespace: "ns", Name: "00", Target: carillon.WorkerQueue("own")}
	next[2].State.OwnSpec, next[2].Spec = true, codec.EncodeSpec(&own)
	next = append(next, store.Record{Ref: store.Ref{Key: carillon.Key{Namespace: "ns", Name: "gone"}, Seq: 1}})
	_, shards := written(t, b)
	shard := &readCounter{Shard: shards[0]}
	var facts specFacts
	for s := (&source[store.Record]{shard: shard, next: next}); len(s.next) > 0; s.next = s.next[1:] {
		got, err := facts.of(t.Context(), s)
		want := jobFacts{known: true, queue: delivery.Queue{Namespace: "ns", Kind: "worker"}}
		switch r := &s.next[0]; {
		case r.Name == "gone":
			want = jobFacts{}
		case r.State.OwnSpec:
			want.queue.Address = "own"
		default:
			want.queue.Address = fmt.Sprint(int(r.Name[0]-'0')*10 + int(r.Name[1]-'0'))
		}
		if err != nil || got.known != want.known || got.queue != want.queue {
			t.Errorf("%v: %+v, %v, want %+v", s.next[0].Ref, got, err, want)
		}
	}
	if slices.SortFunc(shard.refs, store.Ref.Compare); len(slices.Compact(shard.refs)) != jobs+1 ||
		len(shard.refs) != jobs+1 || shard.calls != (jobs+specsAtOnce)/specsAtOnce {
		t.Errorf("%d specs were read in %d calls: %v", len(shard.refs), shard.calls, shard.refs)
	}
}
