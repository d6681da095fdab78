package ingest_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/ingest"
	"github.com/carillonhq/carillon/server/internal/server"
)

// pipe is a source whose messages a test gives.
type pipe chan []*broker.Delivery

func (p pipe) Receive(ctx context.Context) ([]*broker.Delivery, error) {
	select {
	case all := <-p:
		return all, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (pipe) Lag() (int64, bool) { return 0, false }
func (pipe) Close() error       { return nil }

// put is a message that puts a job.
func put(name string) *broker.Delivery {
	return &broker.Delivery{ContentType: "application/cloudevents+json", Data: fmt.Appendf(nil,
		`{"specversion": "1.0", "id": %q, "source": "/test", "type": %q, "subject": %q,
			"data": {"due_time": "24h", "target": {"worker": {"queue": "q"}}}}`, name, ingest.JobPut, name),
		Begin: func() bool { return true }, Done: func() {}, Release: func() {}}
}

// noLetters is a broker to which no dead letters are to come.
type noLetters struct {
	broker.Client

	t *testing.T
}

func (l noLetters) Publish(_ context.Context, ms []broker.Message, done func(int, error)) {
	for i := range ms {
		l.t.Errorf("a message is a dead letter: %+v", ms[i])
		done(i, nil)
	}
}

func (noLetters) Close() error { return nil }

// TestAMessageWaitsForAQuota: messages beyond a quota of their namespace, of jobs or of how often they are put,
// are no dead letters. They are done as soon as there is room, alone or in groups.
func TestAMessageWaitsForAQuota(t *testing.T) {
	for name, c := range map[string]struct {
		quotas   carillon.Quotas
		at       int // so many are done at once
		makeRoom func(t *testing.T, s carillon.Scheduler)
	}{
		"of jobs": {carillon.Quotas{Jobs: 3}, 3, func(t *testing.T, s carillon.Scheduler) {
			if _, err := s.DeleteJobs(t.Context(), "shop", "j"); err != nil {
				t.Error(err)
			}
		}},
		"of puts": {carillon.Quotas{Puts: carillon.Rate{Count: 3, Period: time.Hour}}, 3,
			func(*testing.T, carillon.Scheduler) { <-time.After(time.Hour) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var to server.Intake
				n, err := server.Start(t.Context(), server.Config{Store: "memory:", Partitions: 4, DrainGrace: -1,
					Log: slog.New(slog.DiscardHandler),
					Extensions: server.Extensions{Feeds: []server.Feed{func(i server.Intake) func(context.Context) {
						to = i
						return func(context.Context) {}
					}}}})
				if err != nil {
					t.Fatal(err)
				}
				s := n.Scheduler()
				if _, err := s.PutNamespace(t.Context(), carillon.Namespace{Name: "shop", Quotas: c.quotas}); err != nil {
					t.Fatal(err)
				}
				const messages = 5
				counted := make(chan ingest.Outcome, 10_000)
				source := make(pipe, 1)
				g, err := ingest.Start(ingest.Config{Name: "test", Broker: "b", Settings: broker.Settings{Kind: "pipe"},
					Topics: []string{"topic"}, Namespace: "shop", InFlight: 8, Remember: time.Hour},
					ingest.Options{To: to, Log: slog.New(slog.DiscardHandler),
						Sources: map[string]broker.NewSource{"pipe": func(broker.Settings, broker.Subscription) (broker.Source,
							error) {
							return source, nil
						}},
						Clients: map[string]broker.New{"pipe": func(broker.Settings) (broker.Client, error) {
							return noLetters{t: t}, nil
						}},
						Count: func(_, _ string, o ingest.Outcome) { counted <- o }})
				if err != nil {
					t.Fatal(err)
				}
				var all []*broker.Delivery
				for i := range messages {
					all = append(all, put(fmt.Sprint("j", i)))
				}
				source <- all
				<-time.After(time.Minute)
				done := func() (n int) {
					for range len(counted) {
						switch o := <-counted; o {
						case ingest.Done:
							n++
						case ingest.Retried:
						default:
							t.Errorf("a message is %s", o)
						}
					}
					return n
				}
				at := done()
				if at != c.at {
					t.Errorf("%d messages are done at once, want %d", at, c.at)
				}
				c.makeRoom(t, s)
				<-time.After(10 * time.Minute)
				if at += done(); at != messages {
					t.Errorf("%d messages of %d are done when there is room", at, messages)
				}
				g.Close(t.Context())
				if err := n.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
