package message_test

import (
	"context"
	"errors"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
)

// liar replies the same to every message.
type liar struct {
	reply any
	err   error
}

func (l liar) Ask(context.Context, int, message.Message) (any, error) { return l.reply, l.err }

// TestSendChecksTheReply: its type is the one that the message says, unless there is none with an error.
func TestSendChecksTheReply(t *testing.T) {
	m, failed := message.DeleteByPrefix{}, errors.New("failed")
	for name, c := range map[string]struct {
		from liar
		n    int
		err  error
	}{
		"a reply":               {liar{3, nil}, 3, nil},
		"of another type":       {liar{true, nil}, 0, carillon.Internal},
		"none":                  {liar{nil, nil}, 0, carillon.Internal},
		"an error":              {liar{nil, failed}, 0, failed},
		"an error, done partly": {liar{3, failed}, 3, failed},
	} {
		t.Run(name, func(t *testing.T) {
			if n, err := message.Send(t.Context(), c.from, 0, m); n != c.n || !errors.Is(err, c.err) {
				t.Errorf("got %d, %v", n, err)
			}
		})
	}
}
