package main

import (
	"context"

	"github.com/carillonhq/carillon/server/internal/ingest"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/telemetry"
)

// takeMessages takes commands from the topics that the file of --brokers names, until end is called.
func takeMessages(to server.Intake) (end func(context.Context)) {
	sources, clients := to.Brokers()
	set := ingest.NewSet(ingest.Options{To: to, Sources: sources, Clients: clients, Log: to.Log(),
		Count: func(name, topic string, o ingest.Outcome) {
			to.Metrics().IngestCount(name, topic, string(o))
		}})
	to.Metrics().WatchIngests(func() []telemetry.IngestStats {
		stats := set.Stats()
		all := make([]telemetry.IngestStats, len(stats))
		for i, s := range stats {
			all[i] = telemetry.IngestStats(s)
		}
		return all
	})
	to.ShowIngests(set.Status)
	to.Ingests(set.Apply)
	return set.Close
}
