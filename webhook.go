package carillon

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Webhook is an address to which events of a namespace are sent, each as a CloudEvent by an HTTP request.
//
// Each event that it selects becomes a one-shot job of the namespace with an HTTP target, whose name
// begins with [EventJobs]. So it is sent as every run is: it is retried until the receiver has answered
// 2xx, it is dead after that, with a redrive, and the namespace's secrets sign it. An event may come more
// than once, with the same id, and events may come out of order. No webhook is told what happens to these
// jobs.
type Webhook struct {
	Name    string            // unique in the namespace: 1 to 63 bytes of a-z, A-Z, 0-9 and "-"
	URL     string            // http or https; as of an HTTP target
	Headers map[string]string // of the requests; as of an HTTP target
	// Types are types of events or groups of them, as in [WatchQuery]; at least one. Nodes belong to no
	// namespace: a webhook of any namespace may ask for what happens to them.
	Types  []EventType
	Prefix string // of the names of jobs; events that are about no job are selected all the same
}

// MaxWebhooks is the most webhooks of a namespace.
const MaxWebhooks = 8

// EventJobs begins the names of the jobs that send events to webhooks.
const EventJobs = "carillon.events/"

// Selects reports whether an event is sent to the webhook, which is one of a namespace.
func (w *Webhook) Selects(namespace string, e *Event) bool {
	return (e.Namespace == namespace || e.Namespace == "") && !strings.HasPrefix(e.Job, EventJobs) &&
		(e.Job == "" || strings.HasPrefix(e.Job, w.Prefix)) &&
		w.Asks(e.Type)
}

// Asks reports whether the webhook asks for events of a type.
func (w *Webhook) Asks(t EventType) bool {
	return slices.ContainsFunc(w.Types, func(of EventType) bool { return of.selects(t) })
}

func (w Webhook) equal(o Webhook) bool {
	return w.Name == o.Name && w.URL == o.URL && w.Prefix == o.Prefix && maps.Equal(w.Headers, o.Headers) &&
		slices.Equal(w.Types, o.Types)
}

func checkWebhooks(all []Webhook) error {
	if len(all) > MaxWebhooks {
		return invalid("webhooks", "%d are more than %d", len(all), MaxWebhooks)
	}
	for i := range all {
		w, field := &all[i], fmt.Sprintf("webhooks[%d]", i)
		if slices.ContainsFunc(all[:i], func(other Webhook) bool { return other.Name == w.Name }) {
			return invalid(field+".name", "%q is the name of two webhooks", clip(w.Name))
		}
		if err := renamedWithin(field, w.check()); err != nil {
			return err
		}
	}
	return nil
}

func (w *Webhook) check() error {
	if err := checkNamespace(w.Name, MaxNamespace); err != nil {
		return WithField(err, "name") // names have the same form
	}
	lim := DefaultBounds()
	err := cmp.Or(renamed(checkURL(w.URL, lim.URL), "url"),
		renamed(checkHeaders(w.Headers, lim.Headers), "headers"))
	switch {
	case err != nil:
		return err
	case len(w.Types) == 0:
		return invalid("types", "it is missing; name types of events or groups of them, such as run.dead or node")
	case len(w.Types) > len(EventTypes()):
		return invalid("types", "%d are more than there are", len(w.Types))
	}
	if w.Prefix != "" {
		if err := checkCharacters("prefix", w.Prefix, MaxName); err != nil {
			return err
		}
	}
	return checkEventTypes("types", w.Types)
}

// renamed returns err with another field; nil stays nil.
func renamed(err error, field string) error {
	if err == nil {
		return nil
	}
	return WithField(err, field)
}
