package main

import (
	"context"
	"strings"
	"sync"

	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/outbox"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/telemetry"
)

// maxOutboxes is the most outboxes of a node, each of which takes up to four connections.
const maxOutboxes = 32

// outboxFeeds returns what reads the outboxes of --outbox, each NAME=URL.
func outboxFeeds(all []string) ([]server.Feed, error) {
	if len(all) == 0 {
		return nil, nil
	}
	if len(all) > maxOutboxes {
		return nil, usagef("--outbox: %d are more than %d", len(all), maxOutboxes)
	}
	urls := map[string]bool{}
	named := map[string]string{}
	for _, text := range all {
		name, url, ok := strings.Cut(text, "=")
		switch {
		case !ok || !isOutboxName(name): // not the text, which may have a password in it
			return nil, usagef("--outbox: want NAME=URL, such as shop=postgres://localhost/shop: a name has 1 to 63 of a-z, A-Z, 0-9, - and _")
		case named[name] != "":
			return nil, usagef("--outbox: %s is given twice", name)
		case urls[url]:
			return nil, usagef("--outbox: %s has the URL of another one", name)
		case !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://"):
			return nil, usagef("--outbox: the URL of %s does not begin with postgres://", name)
		}
		if err := outbox.CheckURL(url); err != nil {
			return nil, usagef("--outbox: %s: %v", name, err)
		}
		named[name], urls[url] = url, true
	}
	return []server.Feed{func(to server.Intake) func(context.Context) { return readOutboxes(to, named) }}, nil
}

func isOutboxName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	return name != "" && len(name) <= 63 && strings.Trim(name, letters) == ""
}

// readOutboxes reads outboxes, by name, until the returned function is called.
func readOutboxes(to server.Intake, urls map[string]string) (end func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	do := func(name string) func(context.Context, message.Command) (bool, error) {
		return func(ctx context.Context, c message.Command) (bool, error) {
			return to.Do(message.WithGiver(ctx, "outbox "+name), c)
		}
	}
	until, giveUp := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var readers []*outbox.Reader
	for name, url := range urls {
		r := outbox.New(outbox.Options{Name: name, URL: url, Do: do(name), Forget: to.Forget, Log: to.Log(),
			Done:     func(k int) { to.Metrics().OutboxDone(name, k) },
			Rejected: func(k int) { to.Metrics().OutboxRejected(name, k) }})
		readers = append(readers, r)
		running.Go(func() { r.Run(ctx, until) })
	}
	to.Metrics().WatchOutboxes(func() []telemetry.OutboxStats {
		all := make([]telemetry.OutboxStats, len(readers))
		for i, r := range readers {
			all[i] = telemetry.OutboxStats(r.Stats())
		}
		return all
	})
	return func(ctx context.Context) {
		cancel()
		defer context.AfterFunc(ctx, giveUp)()
		running.Wait()
		giveUp()
	}
}
