package peer_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/peer"
)

// TestCommandsGoToAnotherNode: they are the same there, and so are the decisions here. What an answer does not have
// is open.
func TestCommandsGoToAnotherNode(t *testing.T) {
	key := carillon.Key{Namespace: "shop", Name: "a"}
	due := carillon.At(time.Unix(5000, 7).UTC())
	sent := message.Commands{Commands: []message.Command{
		{Request: "put", Key: key, KeepFor: time.Hour, SeenAt: time.Unix(1000, 5).UTC(), IfGeneration: 3,
			Job: &carillon.Job{Namespace: "shop", Name: "a", Due: due, Target: carillon.WorkerQueue("q"),
				Data: carillon.Bytes([]byte("data"), "text/plain")}},
		{Request: "create", Key: key, IfAbsent: true,
			Job: &carillon.Job{Namespace: "shop", Name: "a", Due: due, Target: carillon.WorkerQueue("q")}},
		{Request: "delete", Key: key, IfGeneration: 9, KeepFor: time.Minute},
		{Request: "trigger", Key: key, Trigger: &carillon.TriggerOptions{}},
		{Request: "refused", Key: key, Refusal: &carillon.Error{Kind: carillon.NotFound, Field: "f", Message: "m"}},
	}}
	var got message.Commands
	n := &node{all: func(p int, m message.Commands) ([]message.Decision, error) {
		if got = m; p != 6 {
			t.Errorf("for partition %d", p)
		}
		return []message.Decision{message.Done, message.Repeated, message.Open}, nil
	}}
	c, _ := serve(t, n, peer.Options{})
	decided, err := message.Send(t.Context(), c, 6, sent)
	want := []message.Decision{message.Done, message.Repeated, message.Open, message.Open, message.Open}
	if err != nil || !reflect.DeepEqual(decided, want) {
		t.Errorf("decided %v, %v", decided, err)
	}
	for i := range sent.Commands {
		if i >= len(got.Commands) || !reflect.DeepEqual(got.Commands[i], sent.Commands[i]) {
			t.Errorf("arrived %+v, not %+v", got.Commands[min(i, len(got.Commands)-1)], sent.Commands[i])
		}
	}
}
