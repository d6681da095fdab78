package ingest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/message"
)

// letters takes dead letters.
type letters struct {
	given

	publish func()
}

func (l *letters) Publish(_ context.Context, ms []broker.Message, done func(int, error)) {
	for i := range ms {
		l.publish()
		done(i, nil)
	}
}

// TestARefusalIsRememberedBeforeTheLetter: a message is a dead letter only when its partition has refused it for good;
// if that is not known it is tried again, and if it turns out to be done it is no dead letter.
func TestARefusalIsRememberedBeforeTheLetter(t *testing.T) {
	no := carillon.Errorf(carillon.NotFound, "name", "there is no job")
	away := carillon.Errorf(carillon.Unavailable, "", "the store is away")
	for name, c := range map[string]struct {
		answers []error // to the refusal, one after the other; nil: it is remembered
		before  bool
		want    Outcome
	}{
		"remembered":             {[]error{nil}, false, Dead},
		"refused before":         {[]error{no}, false, Dead},
		"not known, then so":     {[]error{away, nil}, false, Dead},
		"it was done meanwhile":  {[]error{nil}, true, Repeated},
		"not known, then it was": {[]error{away, nil}, true, Repeated},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			answers, remembered, published := c.answers, false, 0
			do := func(_ context.Context, m message.Command) (bool, error) {
				mu.Lock()
				defer mu.Unlock()
				if m.Refusal == nil {
					return false, no
				}
				if m.Refusal.Kind != carillon.NotFound || m.Refusal.Field != "name" || m.KeepFor != time.Hour || m.Request == "" {
					t.Errorf("refused as %+v", m)
				}
				err := answers[0]
				answers = answers[1:]
				remembered = !errors.Is(err, away)
				return err == nil && c.before, err
			}
			source := &given{in: make(chan []*broker.Delivery, 1)}
			counted := make(chan Outcome, 10)
			box := &letters{publish: func() {
				mu.Lock()
				defer mu.Unlock()
				if published++; !remembered {
					t.Error("it is a dead letter before the refusal is remembered")
				}
			}}
			g := startGiven(t, alone(do), 8, map[string]*given{"topic": source}, box, func(o Outcome) { counted <- o })
			source.in <- []*broker.Delivery{source.delete("a", 1)}
			var got Outcome
			for got = Retried; got == Retried; {
				got = <-counted
			}
			g.Close(t.Context())
			if got != c.want || (got == Dead) != (published == 1) || len(answers) != 0 {
				t.Errorf("%s, %d dead letters, %d answers left", got, published, len(answers))
			}
		})
	}
}
