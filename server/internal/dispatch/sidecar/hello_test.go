package sidecar

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
)

func TestGates(t *testing.T) {
	d := newFakeSink()
	key := &carillon.DaprTarget{AppID: "x", ActorType: "cat", ActorID: "1", ConcurrencyKey: "k"}
	none := d.open(t, Hello{Gates: []Gate{{"cat", "k", 1}, {"cat", "", 5}, {"", "k", 1}, {"dog", "", 0}}},
		Options{})
	s := d.open(t, Hello{ActorTypes: []string{"cat"}}, Options{})
	want := []dispatch.Gate{{Queue: queueOf(key), Most: 5}, {Queue: queueOf(key), Key: "k", Most: 1}}
	var got []dispatch.Gate
	for _, g := range d.hub.Gates() {
		got = append(got, g.Gate)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%+v", got)
	}
	d.deliver(t, key, 0, 3, 0)
	if ds := receive(t, s); len(ds) != 1 {
		t.Fatalf("%+v", ds)
	}
	// it goes on at the sidecar, and counts
	d.hub.Cancel([]delivery.Cancel{{Queue: queueOf(key), Token: token(0)}})
	if st := d.hub.Queues()[0]; st.InFlight != 1 || st.Held != 2 {
		t.Fatalf("%+v", st)
	}
	result(t, s, 1, true, "")
	if ds := receive(t, s); len(ds) != 1 || ds[0].Run.Token != token(1) {
		t.Fatalf("%+v", ds)
	}
	_ = none.Close()
	if ds := receive(t, s); len(ds) != 1 || ds[0].Run.Token != token(2) {
		t.Fatalf("%+v", ds)
	}
	_ = s.Close()
}

func TestHello(t *testing.T) {
	long := strings.Repeat("x", MaxName+1)
	many := make([]string, MaxActorTypes+1)
	for field, h := range map[string]Hello{
		"namespace":                     {AppID: "a"},
		"app_id":                        {Namespace: "n"},
		"actor_types":                   {Namespace: "n", AppID: "a", ActorTypes: many},
		"concurrency_limits":            {Namespace: "n", AppID: "a", Gates: make([]Gate, MaxGates+1)},
		"concurrency_limits.actor.type": {Namespace: "n", AppID: "a", Gates: []Gate{{ActorType: long}}},
		"concurrency_limits.name":       {Namespace: "n", AppID: "a", Gates: []Gate{{ActorType: "t", Key: "\x00"}}},
	} {
		d := newFakeSink()
		_, err := Open(d.hub, h, Options{})
		var e *carillon.Error
		if !errors.Is(err, carillon.InvalidArgument) || !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, bad := range []Hello{{Namespace: "n", AppID: long},
		{Namespace: "n", AppID: "a", ActorTypes: []string{"\n"}}} {
		if _, err := Open(newFakeSink().hub, bad, Options{}); !errors.Is(err, carillon.InvalidArgument) {
			t.Error(err)
		}
	}
}
