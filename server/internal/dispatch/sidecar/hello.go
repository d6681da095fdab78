package sidecar

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/stream"
)

// Hello describes a sidecar that begins to watch.
type Hello struct {
	Namespace, AppID string
	Jobs             bool     // it takes the jobs of its app
	ActorTypes       []string // whose reminders it takes; empty and repeated ones are ignored
	Gates            []Gate   // in force while a sidecar that named them is connected; the last one decides
}

// Gate limits how many runs of an actor type, or of those with a common concurrency key, may be in flight at
// once in the namespace. The sidecar need not host the type.
type Gate struct {
	ActorType string // empty: no gate
	Key       string // empty: the whole type
	Most      int    // below 1: no gate
}

// Options bound a session; the zero value means the defaults.
type Options struct {
	// Credits is how many runs of one queue may be in flight or wait for the sidecar; default 32,768.
	Credits int
	Bounds  stream.Bounds
}

// Defaults of the options, and bounds on a hello.
const (
	DefaultCredits = 1 << 15

	MaxActorTypes = 4096
	MaxGates      = 4096
	MaxName       = carillon.MaxName // bytes of an app id, actor type or concurrency key
)

// check validates a hello.
func (h *Hello) check() error {
	if err := carillon.ValidateNamespace(h.Namespace); err != nil {
		return err
	}
	if h.AppID == "" {
		return carillon.Errorf(carillon.InvalidArgument, "app_id", "it is missing")
	}
	if err := checkName("app_id", h.AppID); err != nil {
		return err
	}
	if n := len(h.ActorTypes); n > MaxActorTypes {
		return carillon.Errorf(carillon.InvalidArgument, "actor_types", "at most %d, not %d", MaxActorTypes, n)
	}
	if n := len(h.Gates); n > MaxGates {
		return carillon.Errorf(carillon.InvalidArgument, "concurrency_limits", "at most %d, not %d", MaxGates, n)
	}
	for _, t := range h.ActorTypes {
		if err := checkName("actor_types", t); err != nil {
			return err
		}
	}
	for _, g := range h.Gates {
		if err := cmp.Or(checkName("concurrency_limits.actor.type", g.ActorType),
			checkName("concurrency_limits.name", g.Key)); err != nil {
			return err
		}
	}
	return nil
}

func checkName(field, name string) error {
	if len(name) > MaxName {
		return carillon.Errorf(carillon.InvalidArgument, field, "at most %d bytes, not %d", MaxName, len(name))
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return carillon.Errorf(carillon.InvalidArgument, field,
			"%.64q has a control character or is not UTF-8", name)
	}
	return nil
}

// addresses returns the addresses of the queues that the sidecar serves, each once.
func (h *Hello) addresses() []string {
	var all []string
	if h.Jobs {
		all = append(all, (&carillon.DaprTarget{AppID: h.AppID}).Address())
	}
	seen := make(map[string]bool, len(h.ActorTypes))
	for _, t := range h.ActorTypes {
		if t != "" && !seen[t] {
			seen[t] = true
			all = append(all, (&carillon.DaprTarget{ActorType: t}).Address())
		}
	}
	return slices.Clip(all)
}

// gates returns the gates that the sidecar asks the hub for.
func (h *Hello) gates() []dispatch.Gate {
	var all []dispatch.Gate
	for _, g := range h.Gates {
		if g.ActorType == "" || g.Most < 1 {
			continue
		}
		q := delivery.Queue{Namespace: h.Namespace, Kind: kind,
			Address: (&carillon.DaprTarget{ActorType: g.ActorType}).Address()}
		all = append(all, dispatch.Gate{Queue: q, Key: g.Key, Most: g.Most})
	}
	return all
}
