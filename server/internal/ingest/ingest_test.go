package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/message"
)

// given is a source whose messages a test gives, and a client that takes none.
type given struct {
	broker.Client

	in       chan []*broker.Delivery
	released atomic.Int32
}

func (s *given) Receive(ctx context.Context) ([]*broker.Delivery, error) {
	select {
	case all := <-s.in:
		return all, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *given) Lag() (int64, bool) { return 0, false }
func (s *given) Close() error       { return nil }

func (s *given) delete(name string, id int) *broker.Delivery {
	return &broker.Delivery{ContentType: structuredType, Data: fmt.Appendf(nil,
		`{"specversion": "1.0", "id": "%d", "source": "/test", "type": %q, "subject": %q}`, id, JobDelete, name),
		Begin: func() bool { return true }, Done: func() {}, Release: func() { s.released.Add(1) }}
}

// startGiven starts an ingest whose messages the test gives; outcomes are counted by count. Without letters there
// are to be no dead letters.
func startGiven(t *testing.T, to Doer, inFlight int, sources map[string]*given, letters broker.Client,
	count func(Outcome)) *Ingest {
	t.Helper()
	return startGivenLogged(t, to, inFlight, sources, letters, count, slog.DiscardHandler)
}

func startGivenLogged(t *testing.T, to Doer, inFlight int, sources map[string]*given, letters broker.Client,
	count func(Outcome), log slog.Handler) *Ingest {
	t.Helper()
	c := Config{Name: "test", Settings: broker.Settings{Kind: "given"},
		Topics: slices.Sorted(maps.Keys(sources)), Namespace: "shop", InFlight: inFlight, Remember: time.Hour}
	g, err := Start(c, Options{To: to,
		Sources: map[string]broker.NewSource{"given": func(_ broker.Settings, s broker.Subscription) (broker.Source,
			error) {
			return sources[s.Topic], nil
		}},
		Clients: map[string]broker.New{"given": func(broker.Settings) (broker.Client, error) { return letters, nil }},
		Log:     slog.New(log), Count: func(_, _ string, o Outcome) { count(o) }})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// alone does no commands together.
type alone func(ctx context.Context, c message.Command) (bool, error)

func (d alone) Do(ctx context.Context, c message.Command) (bool, error) { return d(ctx, c) }

func (alone) DoAll(context.Context, int, []message.Command) ([]message.Decision, error) {
	return nil, nil
}

func (alone) PartitionOf(carillon.Key) int { return 0 }

// TestOneJobDoesNotTakeAllSlots: many messages wait for one of their job that cannot be done; those of
// another topic are done. When the ingest ends, each message that is not done is released.
func TestOneJobDoesNotTakeAllSlots(t *testing.T) {
	const most = 30
	sources := map[string]*given{"first": {in: make(chan []*broker.Delivery)},
		"second": {in: make(chan []*broker.Delivery)}}
	held, done := make(chan struct{}, 1), make(chan struct{})
	g := startGiven(t, alone(func(ctx context.Context, c message.Command) (bool, error) {
		if c.Key.Name == "free" {
			close(done)
			return false, nil
		}
		held <- struct{}{}
		<-ctx.Done()
		return false, carillon.Errorf(carillon.Unavailable, "", "the store is away")
	}), 8, sources, &given{}, func(Outcome) {})
	var all []*broker.Delivery
	for i := range most {
		all = append(all, sources["first"].delete("held", i))
	}
	sources["first"].in <- all
	<-held
	sources["second"].in <- []*broker.Delivery{sources["second"].delete("free", most)}
	<-done
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Close(ctx)
	if got := sources["first"].released.Load(); got != most {
		t.Errorf("%d of %d messages are released", got, most)
	}
	for _, s := range g.Status("a") {
		if s.InFlight != 0 {
			t.Errorf("nothing is under way: %+v", s)
		}
	}
}
