package brokertarget

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// TestChangesOfBrokers: a client lives on while its settings are the same, and one that is replaced is closed
// when what it has under way has ended. What is wrong changes nothing.
func TestChangesOfBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ack func(int, error)
		r := newRig(t, Options{}, func(_ context.Context, _ []broker.Message, done func(int, error)) { ack = done })
		r.apply("1")
		if len(r.clients) != 1 {
			t.Fatal("a client was made of the same settings")
		}
		r.deliver(attempt(0))
		synctest.Wait()
		for want, b := range map[string]Broker{
			"brokers.other: user: wrong": {Print: "x", Settings: broker.Settings{Kind: "nats", User: "wrong"}},
			"brokers.other: kind: mqtt is not supported yet; this build knows nats": {Settings: broker.Settings{Kind: "mqtt"}},
		} {
			err := r.set.Apply(map[string]Broker{"other": b, "new": {Settings: broker.Settings{Kind: "nats"}}})
			if err == nil || err.Error() != want {
				t.Errorf("%v, not %s", err, want)
			}
			if made := r.client(); !made.isClosed() {
				t.Error("a client that was made in vain is open")
			}
		}
		if why := r.set.refuses("nats", "events"); why != "" || r.clients[0].isClosed() {
			t.Errorf("what was wrong has changed something: %s", why)
		}
		r.apply("2")
		synctest.Wait()
		if r.clients[0].isClosed() {
			t.Error("a client is closed that has something under way")
		}
		ack(0, nil)
		synctest.Wait()
		if one, _ := r.report(0); one.Outcome != carillon.OutcomeSuccess || !r.clients[0].isClosed() {
			t.Errorf("%+v; closed: %v", one.Result, r.clients[0].isClosed())
		}
		if why := r.set.refuses("kafka", "events"); why != `broker "events" of this node is of kind nats, not kafka` {
			t.Error(why)
		}
		if why := r.set.refuses("nats", "eventz"); !strings.Contains(why, `no broker "eventz" of kind nats, only events`) {
			t.Error(why)
		}
		r.close()
		if !r.client().isClosed() {
			t.Error("the last client is open")
		}
	})
}
