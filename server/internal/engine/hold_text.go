package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// The sentences of holds, in parts.

// noConsumerText says that nobody serves a queue, at a node.
func noConsumerText(node string, q delivery.Queue, c delivery.Consumers) string {
	var b strings.Builder
	if q.Kind == "worker" {
		fmt.Fprintf(&b, "no worker serves %s of namespace %q", queueText(q), q.Namespace)
	} else {
		fmt.Fprintf(&b, "no sidecar for %s is connected in namespace %q", queueText(q), q.Namespace)
	}
	if c.Elsewhere > 0 {
		fmt.Fprintf(&b, " through node %q, which owns the run's partition; %s connected to other nodes", node,
			several(c.Elsewhere, "is", "are"))
	}
	if !c.Left.IsZero() {
		fmt.Fprintf(&b, "; the last one left at %s", c.Left.UTC().Format(time.RFC3339))
	}
	b.WriteString(unheardText(c.Unheard))
	return b.String()
}

// backoffText says that a host or broker gets nothing for a while.
func backoffText(q delivery.Queue, c delivery.Consumers) string {
	until := c.PausedUntil.UTC().Format(time.RFC3339)
	if q.Broker() {
		return fmt.Sprintf("%s gets nothing at present, the next run is sent at %s: %s", queueText(q), until, c.PausedFor)
	}
	return fmt.Sprintf("%s has asked for fewer requests, by a 429 or 503: the next is sent at %s", queueText(q), until)
}

// noCreditText says that those who serve a queue have no room.
func noCreditText(q delivery.Queue, c delivery.Consumers) string {
	if q.Broker() && c.MostAwaited > 0 && c.Awaited >= c.MostAwaited {
		return fmt.Sprintf("%s of %s %s their completion by a consumer, as many as may on this node "+
			"(awaiting in the file of brokers)", several(c.Awaited, "run", "runs"), queueText(q),
			numbered(c.Awaited, "awaits", "await"))
	}
	inFlight := c.InFlight + c.InFlightElsewhere
	if q.Broker() && c.TriesFor != "" {
		return fmt.Sprintf("%s gets one run at a time until it has acknowledged one: %s", queueText(q), c.TriesFor)
	}
	if q.Broker() {
		return fmt.Sprintf("%s has not acknowledged %s, as many as it is given at a time", queueText(q),
			several(inFlight, "run", "runs"))
	}
	if q.Kind == "http" {
		return fmt.Sprintf("%s has %s in flight, as many as it is given at a time", queueText(q),
			several(inFlight, "request", "requests"))
	}
	text := fmt.Sprintf("%s of %s %s no room: %s in flight", workersText(q, c.N), queueText(q),
		numbered(c.N, "has", "have"), several(inFlight, "run is", "runs are"))
	if c.Silent > 0 {
		text += fmt.Sprintf(", and %d of them %s silent", c.Silent, numbered(c.Silent, "is", "are"))
	}
	if c.CreditsElsewhere > 0 {
		text += fmt.Sprintf("; through other nodes there is room for %d", c.CreditsElsewhere)
	}
	return text + unheardText(c.Unheard)
}

func unheardText(nodes []string) string {
	if len(nodes) == 0 {
		return ""
	}
	return "; not answered: " + strings.Join(nodes, ", ")
}

// queueText names a queue in a sentence.
func queueText(q delivery.Queue) string {
	switch q.Kind {
	case "http":
		return fmt.Sprintf("host %q", q.Address)
	case "kafka", "amqp", "nats", "redis":
		return fmt.Sprintf("%s queue %q", q.Kind, q.Address)
	case "dapr":
		if kind, name, ok := strings.Cut(q.Address, "/"); ok && kind == "actor" {
			return fmt.Sprintf("actor type %q", name)
		} else if ok {
			return fmt.Sprintf("%s %q", kind, name)
		}
	}
	return fmt.Sprintf("queue %q", q.Address)
}

// workersText names the consumers of a queue in a sentence.
func workersText(q delivery.Queue, n int) string {
	one, many := "worker", "workers"
	if q.Kind == "dapr" {
		one, many = "sidecar", "sidecars"
	}
	if n == 1 {
		return "the only " + one
	}
	return fmt.Sprintf("the %d %s", n, many)
}

// numbered returns the word for one, or for another number.
func numbered(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// several says how many there are of something.
func several(n int, one, many string) string { return fmt.Sprintf("%d %s", n, numbered(n, one, many)) }

// holdersText names the jobs of some runs that hold permits, of which so many are held.
func holdersText(holders []store.Ref, held int) string {
	const most = 3
	var names []string
	for _, ref := range holders {
		if !slices.Contains(names, ref.Name) {
			names = append(names, ref.Name)
		}
	}
	switch {
	case len(names) == 0:
		return ""
	case len(names) > most || len(holders) < held:
		names = names[:min(len(names), most)]
		return fmt.Sprintf(", by runs of %s, and others", partition.JobsText(names))
	}
	return ", by runs of " + partition.JobsText(names)
}

// limitText names a limit in a sentence, and returns the code of a run that waits for it.
func limitText(l delivery.Limit) (code, what string) {
	actorType, key, named := l.Actor()
	rated, isRate := l.Rate()
	switch {
	case isRate && rated == "":
		return carillon.HoldRate, fmt.Sprintf("quota of runs of namespace %q", l.Namespace)
	case isRate:
		return carillon.HoldRate, fmt.Sprintf("rate limit of concurrency key %.64q", rated)
	case l.IsQuota():
		return carillon.HoldQuota, fmt.Sprintf("the quota of concurrent runs of namespace %q", l.Namespace)
	case !named:
		return carillon.HoldLimit, fmt.Sprintf("concurrency key %.64q", l.Key)
	case key == "":
		return carillon.HoldNamedLimit, fmt.Sprintf("actor type %.64q, which sidecars limit", actorType)
	}
	return carillon.HoldNamedLimit, fmt.Sprintf("concurrency key %.64q of actor type %.64q, which sidecars limit",
		key, actorType)
}

// clockText formats an instant (UTC ns) for people, to the second above.
func clockText(ns int64) string {
	return time.Unix(0, ns).UTC().Add(time.Second - 1).Truncate(time.Second).Format(time.RFC3339)
}

// errorText returns what is wrong, for people.
func errorText(err error) string {
	if e, ok := errors.AsType[*carillon.Error](err); ok {
		return e.Message
	}
	return err.Error()
}
