package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// TestAPausedQueueIsWhyARunWaits: whoever serves it. A run that waits for the queue's limit says so first.
func TestAPausedQueueIsWhyARunWaits(t *testing.T) {
	mail := delivery.Queue{Namespace: "n", Kind: "worker", Address: "mail"}
	due, since := time.Unix(100, 0), time.Unix(200, 0)
	pauses := map[delivery.Queue]carillon.QueuePause{mail: {Since: since, Note: "the mail server moves"}}
	h := &holds{cfg: &Config{Now: time.Now}, paused: func() map[delivery.Queue]carillon.QueuePause { return pauses }}
	h.cfg.Consumers = func(context.Context, delivery.Queue) delivery.Consumers { return delivery.Consumers{N: 1} }
	waits := func() *carillon.Hold {
		return h.complete(t.Context(), nil, &partition.Hold{Queue: mail, Hold: carillon.Hold{Since: due}})
	}
	if hold := waits(); hold.Code != carillon.HoldQueuePaused || !hold.Since.Equal(since) ||
		hold.Text != `queue "mail" is paused: the mail server moves` {
		t.Errorf("while it is paused: %+v", hold)
	}
	clear(pauses)
	if hold := waits(); hold.Code == carillon.HoldQueuePaused || !hold.Since.Equal(due) {
		t.Errorf("once it is resumed: %+v", hold)
	}
}

func TestWhoServesAQueueIsWhyARunWaits(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	h := &holds{cfg: &Config{Node: "a", Now: func() time.Time { return now }}}
	queue := func(kind, address string) delivery.Queue {
		return delivery.Queue{Namespace: "n", Kind: kind, Address: address}
	}
	mail, host := queue("worker", "mail"), queue("http", "h:80")
	topic := queue("kafka", "events/runs")
	app, actor := queue("dapr", "app/x"), queue("dapr", "actor/cat")
	for _, c := range []struct {
		queue      delivery.Queue
		consumers  delivery.Consumers
		code, text string
	}{
		{mail, delivery.Consumers{}, "no_consumer", `no worker serves queue "mail" of namespace "n"`},
		{mail, delivery.Consumers{Left: now}, "no_consumer",
			`no worker serves queue "mail" of namespace "n"; the last one left at 2026-01-02T03:04:05Z`},
		{mail, delivery.Consumers{Elsewhere: 2, Unheard: []string{"b", "c"}}, "no_consumer",
			`no worker serves queue "mail" of namespace "n" through node "a", which owns the run's partition; ` +
				`2 are connected to other nodes; not answered: b, c`},
		{app, delivery.Consumers{}, "no_consumer", `no sidecar for app "x" is connected in namespace "n"`},
		{actor, delivery.Consumers{Elsewhere: 1}, "no_consumer",
			`no sidecar for actor type "cat" is connected in namespace "n" through node "a", which owns the run's ` +
				`partition; 1 is connected to other nodes`},
		{mail, delivery.Consumers{N: 2, Silent: 2}, "silent_workers",
			`the 2 workers of queue "mail" are silent: an attempt ended without a sign of life, so they get no more ` +
				`before they send something`},
		{app, delivery.Consumers{N: 1, Silent: 1}, "silent_workers",
			`the only sidecar of app "x" is silent: an attempt ended without a sign of life, so it gets no more ` +
				`before it sends something`},
		{mail, delivery.Consumers{N: 3, Silent: 1, InFlight: 4, InFlightElsewhere: 2}, "no_credit",
			`the 3 workers of queue "mail" have no room: 6 runs are in flight, and 1 of them is silent`},
		{mail, delivery.Consumers{N: 1, InFlight: 1, CreditsElsewhere: 5, Unheard: []string{"b"}}, "no_credit",
			`the only worker of queue "mail" has no room: 1 run is in flight; through other nodes there is room for 5; ` +
				`not answered: b`},
		{host, delivery.Consumers{N: 1, InFlight: 128}, "no_credit",
			`host "h:80" has 128 requests in flight, as many as it is given at a time`},
		{host, delivery.Consumers{N: 1, PausedUntil: now.Add(time.Minute)}, "backoff",
			`host "h:80" has asked for fewer requests, by a 429 or 503: the next is sent at 2026-01-02T03:05:05Z`},
		{host, delivery.Consumers{N: 1, Credits: 1, PausedUntil: now}, "starting", `it is due, and about to be handed out`},
		{host, delivery.Consumers{}, "starting", `it is due, and about to be handed out`},
		{mail, delivery.Consumers{N: 1, Credits: 9, Bound: 16, Bounded: 16}, "slow_start",
			`node "a" started with a backlog and has no more than 16 runs in flight yet; the bound grows step by step`},
		{mail, delivery.Consumers{N: 1, Credits: 9, Bound: 16, Bounded: 15, Shared: true}, "slow_start",
			`node "a" started with a backlog and has no more than 16 runs in flight yet, of which queue "mail" has its share; ` +
				`the bound grows step by step`},
		{topic, delivery.Consumers{N: 1, InFlight: 1, TriesFor: "it is away"}, "no_credit",
			`kafka queue "events/runs" gets one run at a time until it has acknowledged one: it is away`},
		{mail, delivery.Consumers{N: 1, Credits: 9, Bound: 16, Bounded: 15}, "starting",
			`it is due, and about to be handed out`},
		{mail, delivery.Consumers{Leaving: true}, "node_leaving",
			`node "a" is about to end and hands out nothing more: another one will, or its next start`},
	} {
		hold := &partition.Hold{Queue: c.queue, Hold: carillon.Hold{Since: now.Add(-time.Hour)}}
		h.inQueue(hold, c.consumers)
		if hold.Code != c.code || hold.Text != c.text {
			t.Errorf("%+v:\n%s: %s, want\n%s: %s", c.consumers, hold.Code, hold.Text, c.code, c.text)
		}
		want := now.Add(-time.Hour)
		if !c.consumers.Left.IsZero() {
			want = now
		}
		if !hold.Since.Equal(want) || !hold.Until.IsZero() != (c.code == "backoff") {
			t.Errorf("%+v: since %v, until %v", c.consumers, hold.Since, hold.Until)
		}
	}
}

func TestALimitIsNamedForPeople(t *testing.T) {
	for l, want := range map[delivery.Limit][2]string{
		{Namespace: "n", Key: "db"}:          {"limit", `concurrency key "db"`},
		delivery.ActorLimit("n", "cat", ""):  {"named_limit", `actor type "cat", which sidecars limit`},
		delivery.ActorLimit("n", "cat", "k"): {"named_limit", `concurrency key "k" of actor type "cat", which sidecars limit`},
	} {
		if code, text := limitText(l); code != want[0] || text != want[1] {
			t.Errorf("%q: %s, %s", l.Key, code, text)
		}
	}
}

// TestAReadWithoutAnOwnerSaysSo, unless what is stored says why the run waits anyway.
func TestAReadWithoutAnOwnerSaysSo(t *testing.T) {
	const now = int64(1e18)
	due := store.State{Phase: carillon.PhaseStaged, Queue: "n\x00worker\x00q", Run: store.RunState{Live: true, Due: now - 1}}
	next, late := store.State{Next: now + 1}, store.State{Next: now - 1}
	paused, running := next, due
	paused.Paused, running.Phase = true, carillon.PhaseRunning
	away := unavailable(errors.New("the disk is full"))
	for name, c := range map[string]struct {
		state      store.State
		refusal    error
		code, text string
	}{
		"due, and nobody owns it": {due, notOwner(7), "partition_unowned",
			"no node that can be reached owns partition 7, to which the run belongs"},
		"due, and the store takes nothing": {due, away, "store_away",
			"partition 7, to which the run belongs, is not served: the store did not take the change: the disk is full"},
		"next, late": {late, notOwner(7), "partition_unowned",
			"no node that can be reached owns partition 7, to which the run belongs"},
		"not due":   {next, notOwner(7), "not_due", "the next run is due at 2001-09-09T01:46:40Z"},
		"paused":    {paused, away, "paused", "the job is paused"},
		"in force":  {running, notOwner(7), "", ""},
		"no matter": {due, nil, "", ""},
	} {
		var j carillon.Job
		partition.StatusOf(&j, &c.state, 7)
		hold := unserved(7, partition.StoredHold(&j, &c.state, now), c.refusal)
		if c.code == "" {
			if hold != nil {
				t.Errorf("%s: %+v", name, hold)
			}
			continue
		}
		if hold == nil || hold.Code != c.code || hold.Text != c.text {
			t.Errorf("%s: %+v, want %s: %s", name, hold, c.code, c.text)
		}
	}
}

// TestAListSaysWhatIsStored.
func TestAListSaysWhatIsStored(t *testing.T) {
	const now = int64(1e18)
	live := func(change func(s *store.State)) store.State {
		s := store.State{Run: store.RunState{Live: true, Due: now - 1, Attempt: 1}}
		change(&s)
		return s
	}
	for want, s := range map[string]store.State{
		"":           {Next: now + 1},
		" ":          live(func(*store.State) {}),
		"paused":     {Next: now + 1, Paused: true},
		"depends_on": {Next: now - 1, Phase: carillon.PhaseWaiting, Waits: []store.Wait{{Name: "a"}}},
		"retrying":   live(func(s *store.State) { s.Run.Due = now + 1 }),
		"staged":     live(func(s *store.State) { s.Phase, s.Queue = carillon.PhaseStaged, "n\x00worker\x00q" }),
		"limit":      live(func(s *store.State) { s.Phase, s.Queue = carillon.PhaseStaged, "n\x00worker\x00q\x00key" }),
	} {
		var j carillon.Job
		partition.StatusOf(&j, &s, 7)
		hold, code := inList(&j, &s, now), ""
		if hold != nil {
			code = hold.Code
		}
		if want == " " {
			want = ""
		}
		if code != want || hold != nil && hold.Text == "" {
			t.Errorf("%+v, want %q", hold, want)
		}
		// The store does not know why: the queue may be paused, or unserved.
		if want == "staged" && hold.Text != `it is due and waits in the store for queue "q"` {
			t.Errorf("%+v", hold)
		}
	}
}

// mute is a cluster of which no other node answers.
type mute struct{}

func (mute) Ask(ctx context.Context, _ int, _ message.Message) (any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestAHomeThatDoesNotAnswerLeavesItsNumbersOut, and does not keep the reader waiting.
func TestAHomeThatDoesNotAnswerLeavesItsNumbersOut(t *testing.T) {
	limit := delivery.Limit{Namespace: "n", Key: "db"}
	p := &partitionRunner{}
	ps := &partitions{parts: []*partitionRunner{p}, peers: mute{}}
	h := &holds{cfg: &Config{}, partitions: ps,
		limiter: &limiter{limitOf: func(delivery.Limit) (int, bool) { return 3, true }}}
	hold := h.complete(t.Context(), p, &partition.Hold{Line: delivery.Line{Limit: limit}})
	if hold.Code != "limit" || hold.Text != `it waits for one of the 3 permits of concurrency key "db"` {
		t.Errorf("%+v", hold)
	}
	h.limiter.limitOf = func(delivery.Limit) (int, bool) { return 0, true }
	hold = h.complete(t.Context(), p, &partition.Hold{Line: delivery.Line{Limit: limit}})
	if hold.Text != `the limit of concurrency key "db" is 0, so no run gets a permit` {
		t.Errorf("%+v", hold)
	}
	h.limiter.limitOf = func(delivery.Limit) (int, bool) { return 0, false }
	hold = h.complete(t.Context(), p, &partition.Hold{Line: delivery.Line{Limit: limit}})
	if hold.Text != `concurrency key "db" is not limited any more, so the run is about to be handed out` {
		t.Errorf("%+v", hold)
	}
	if h.complete(t.Context(), p, nil) != nil {
		t.Error("nothing keeps it")
	}
}

func TestThoseWhoHoldPermitsAreNamed(t *testing.T) {
	refs := func(names ...string) (all []store.Ref) {
		for i, name := range names {
			all = append(all, store.Ref{Key: carillon.Key{Namespace: "n", Name: name}, Seq: uint64(i)})
		}
		return all
	}
	for want, c := range map[string]struct {
		refs []store.Ref
		held int
	}{
		"":                                 {nil, 1},
		`, by runs of job "a"`:             {refs("a", "a"), 2},
		`, by runs of jobs "a" and "b"`:    {refs("a", "b", "a"), 3},
		`, by runs of job "a", and others`: {refs("a"), 2},
		`, by runs of jobs "a", "b" and "c", and others`: {refs("a", "b", "c", "d"), 4},
	} {
		if got := holdersText(c.refs, c.held); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
