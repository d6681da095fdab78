package carillon

import (
	"errors"
	"strings"
	"testing"
)

func TestWatchQueriesAreValidated(t *testing.T) {
	for field, bad := range map[string]WatchQuery{
		"prefix":    {Prefix: "a"},
		"namespace": {Namespace: "a/b"},
		"types":     {Types: []EventType{EventRunDead, "run.born"}},
		"types ":    {Namespace: "a", Types: []EventType{"run", "node"}},
		"types  ":   {Namespace: "a", Prefix: "b", Types: []EventType{EventQueueServed}},
	} {
		field = strings.TrimSpace(field)
		err := bad.Validate()
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != InvalidArgument || e.Field != field {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for _, good := range []WatchQuery{{}, {Namespace: "a", Prefix: "b/"}, {Types: EventTypes()},
		{Types: []EventType{"run", "job"}}, {Namespace: "a", Types: []EventType{"queue"}}} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
}

func TestAWatchQuerySelects(t *testing.T) {
	dead := &Event{Type: EventRunDead, Namespace: "n", Job: "a/b"}
	for _, c := range []struct {
		q    WatchQuery
		want bool
	}{
		{WatchQuery{}, true},
		{WatchQuery{Namespace: "n"}, true},
		{WatchQuery{Namespace: "m"}, false},
		{WatchQuery{Namespace: "n", Prefix: "a/"}, true},
		{WatchQuery{Namespace: "n", Prefix: "b"}, false},
		{WatchQuery{Types: []EventType{"run"}}, true},
		{WatchQuery{Types: []EventType{"job", EventRunDead}}, true},
		{WatchQuery{Types: []EventType{"job", EventRunFailed}}, false},
	} {
		if got := c.q.Selects(dead); got != c.want {
			t.Errorf("%+v: %v", c.q, got)
		}
	}
}

// TestEveryEventTypeHasAGroup: its first word, by which it can be selected.
func TestEveryEventTypeHasAGroup(t *testing.T) {
	for _, e := range EventTypes() {
		if g := e.group(); g == "" || g == e || !strings.HasPrefix(string(e), string(g)+".") {
			t.Errorf("%q has the group %q", e, g)
		}
	}
}
