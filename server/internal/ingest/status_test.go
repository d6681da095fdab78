package ingest

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// TestAnIngestThatCannotStartIsShown, with why, until it can or is not wanted any more.
func TestAnIngestThatCannotStartIsShown(t *testing.T) {
	why := errors.New("no certificate " + strings.Repeat("ä", maxError))
	fails := true
	s := NewSet(Options{Log: slog.New(slog.DiscardHandler),
		Sources: map[string]broker.NewSource{"given": func(broker.Settings, broker.Subscription) (broker.Source, error) {
			if fails {
				return nil, why
			}
			return &given{in: make(chan []*broker.Delivery)}, nil
		}},
		Clients: map[string]broker.New{"given": func(broker.Settings) (broker.Client, error) { return &closing{}, nil }}})
	defer s.Close(t.Context())
	configs := map[string]Config{"orders": {Name: "orders", Broker: "b", Settings: broker.Settings{Kind: "given"},
		Topics: []string{"first", "second"}, Namespace: "shop", InFlight: 1}}
	s.Apply(configs)
	all := s.Status("a")
	if len(all) != 2 || all[1].Topic != "second" || all[1].Priority != 2 || all[1].Namespace != "shop" {
		t.Fatalf("its status is %+v", all)
	}
	r := all[0].Readers[0]
	if r.Node != "a" || r.Connected || !strings.HasPrefix(r.Error, "no certificate ä") || r.ErrorSince.IsZero() || r.LagKnown {
		t.Errorf("its reader is %+v", r)
	}
	if len(r.Error) > maxError+len("…") || !utf8.ValidString(r.Error) {
		t.Errorf("its error has %d bytes", len(r.Error))
	}
	s.Apply(configs) // as when another of the file has changed
	if again := s.Status("a")[0].Readers[0]; again.Since != r.Since || again.ErrorSince != r.ErrorSince {
		t.Errorf("it is so since %v and then since %v", r.ErrorSince, again.ErrorSince)
	}
	other := configs["orders"]
	other.Print = "another"
	s.Apply(map[string]Config{"orders": other})
	if again := s.Status("a")[0].Readers[0]; !again.ErrorSince.After(r.ErrorSince) {
		t.Errorf("another is so since %v, as the one before it", again.ErrorSince)
	}
	fails = false
	s.Apply(configs)
	if all := s.Status("a"); len(all) != 2 || all[0].Readers[0].Error != "" {
		t.Errorf("after it was started: %+v", all)
	}
	s.Apply(nil)
	if all := s.Status("a"); len(all) != 0 {
		t.Errorf("without it: %+v", all)
	}
	fails = true
	s.Apply(configs)
	s.Apply(nil)
	if all := s.Status("a"); len(all) != 0 {
		t.Errorf("without the one that cannot start: %+v", all)
	}
}

// closing is a client that publishes nothing.
type closing struct{ broker.Client }

func (*closing) Close() error { return nil }
