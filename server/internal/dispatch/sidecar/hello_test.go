package sidecar

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// TestLimits: what a sidecar names is in force from before it gets anything until it has given back what it
// held. Those without a type or a number count for nothing.
func TestLimits(t *testing.T) {
	d := newFakeSink()
	s := d.open(t, Hello{ActorTypes: []string{"cat"}, Limits: []Limit{{"cat", "k", 1}, {"cat", "", 5},
		{"", "k", 1}, {"dog", "", 0}}}, Options{})
	want := []delivery.NamedLimit{{Limit: delivery.ActorLimit("n", "cat", "k"), Most: 1},
		{Limit: delivery.ActorLimit("n", "cat", ""), Most: 5}}
	if !slices.Equal(d.limits.inForce, want) {
		t.Fatalf("%+v", d.limits.inForce)
	}
	cat := &carillon.DaprTarget{AppID: "x", ActorType: "cat", ActorID: "1"}
	d.deliver(t, cat, 0, 2, 0)
	receive(t, s)
	var before []string
	d.limits.ended = func() { before = d.handedBack() }
	_ = s.Close()
	if !slices.Equal(before, tokens(0, 2)) || len(d.limits.inForce) > 0 {
		t.Fatalf("%v were handed back before the limits ended; left: %+v", before, d.limits.inForce)
	}
	if _ = s.Close(); len(d.handedBack()) > 0 {
		t.Fatal("it ended twice")
	}
}

// TestLimitsOfASessionThatDoesNotBegin are not in force, and one whose limits are refused does not begin.
func TestLimitsOfASessionThatDoesNotBegin(t *testing.T) {
	d := newFakeSink()
	hello := Hello{Namespace: "n", AppID: "app", Limits: []Limit{{"cat", "", 5}}}
	d.limits.err = carillon.Errorf(carillon.ResourceExhausted, "concurrency_limits", "too many")
	if _, err := Open(d.hub, &d.limits, hello, Options{}); !errors.Is(err, carillon.ResourceExhausted) ||
		len(d.hub.Workers()) > 0 {
		t.Fatal(err)
	}
	d.limits.err = nil
	if err := d.hub.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(d.hub, &d.limits, hello, Options{}); !errors.Is(err, carillon.Unavailable) ||
		len(d.limits.inForce) > 0 {
		t.Fatalf("%v, %+v", err, d.limits.inForce)
	}
}

func TestHello(t *testing.T) {
	long := strings.Repeat("x", MaxName+1)
	many := make([]string, MaxActorTypes+1)
	for field, h := range map[string]Hello{
		"namespace":                     {AppID: "a"},
		"app_id":                        {Namespace: "n"},
		"actor_types":                   {Namespace: "n", AppID: "a", ActorTypes: many},
		"concurrency_limits":            {Namespace: "n", AppID: "a", Limits: make([]Limit, MaxLimits+1)},
		"concurrency_limits.actor.type": {Namespace: "n", AppID: "a", Limits: []Limit{{ActorType: long}}},
		"concurrency_limits.name":       {Namespace: "n", AppID: "a", Limits: []Limit{{ActorType: "t", Key: "\x00"}}},
	} {
		d := newFakeSink()
		_, err := Open(d.hub, &d.limits, h, Options{})
		var e *carillon.Error
		if !errors.Is(err, carillon.InvalidArgument) || !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, bad := range []Hello{{Namespace: "n", AppID: long},
		{Namespace: "n", AppID: "a", ActorTypes: []string{"\n"}}} {
		if _, err := Open(newFakeSink().hub, &named{}, bad, Options{}); !errors.Is(err, carillon.InvalidArgument) {
			t.Error(err)
		}
	}
}
