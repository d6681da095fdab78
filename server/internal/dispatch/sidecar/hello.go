package sidecar

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch/stream"
)

// Hello describes a sidecar that begins to watch.
type Hello struct {
	Namespace, AppID string
	Jobs             bool     // it takes the jobs of its app
	ActorTypes       []string // whose reminders it takes; empty and repeated ones are ignored
	Limits           []Limit  // in force while a sidecar that named them is connected; the newest decides
}

// Limit is how many attempts of reminders of an actor type, or of those with a common concurrency key, may be
// in force at once in the namespace, over all nodes. The sidecar need not host the type.
type Limit struct {
	ActorType string // empty: no limit
	Key       string // empty: the whole type
	Most      int    // below 1: no limit
}

// Limits puts limits in force until end is called. The engine is one.
type Limits interface {
	NameLimits(limits []delivery.NamedLimit) (end func(), err error)
}

// Options bound a session; the zero value means the defaults.
type Options struct {
	// Credits is how many runs of one queue may be in flight or wait for the sidecar; default 32,768.
	Credits int
	Bounds  stream.Bounds
	// Handed is told of each run that the sidecar gets, before [Session.Receive] returns it; nil: nobody is.
	Handed func(Delivery)
}

// Defaults of the options, and bounds on a hello.
const (
	DefaultCredits = 1 << 15

	MaxActorTypes = 4096
	MaxLimits     = 4096
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
	if n := len(h.Limits); n > MaxLimits {
		return carillon.Errorf(carillon.InvalidArgument, "concurrency_limits", "at most %d, not %d", MaxLimits, n)
	}
	for _, t := range h.ActorTypes {
		if err := checkName("actor_types", t); err != nil {
			return err
		}
	}
	for _, l := range h.Limits {
		if err := cmp.Or(checkName("concurrency_limits.actor.type", l.ActorType),
			checkName("concurrency_limits.name", l.Key)); err != nil {
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

// limits returns the limits that the sidecar names.
func (h *Hello) limits() []delivery.NamedLimit {
	var all []delivery.NamedLimit
	for _, l := range h.Limits {
		if l.ActorType != "" && l.Most > 0 {
			all = append(all, delivery.NamedLimit{Limit: delivery.ActorLimit(h.Namespace, l.ActorType, l.Key),
				Most: l.Most})
		}
	}
	return all
}
