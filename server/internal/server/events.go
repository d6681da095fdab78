package server

import (
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// engineEvents are counted by the metrics.
func (n *Node) engineEvents() engine.Events {
	m := n.metrics
	return engine.Events{
		Events:    partition.Events{Fired: m.Fired, Finished: m.Finished, Skipped: m.Skipped, Staged: m.Staged},
		Scheduled: m.Scheduled, Committed: m.Committed,
		Owned: m.Owned, Lost: m.Lost, HandedOver: m.HandedOver, Dropped: m.Dropped,
		Recorded: logRecorded(n.config.auditLog()), QuotaRefused: m.QuotaRefused,
		ReachEvents: engine.ReachEvents{Away: n.trouble.away, Back: n.trouble.back},
	}
}

// clusterEvents are counted by the metrics.
func (n *Node) clusterEvents() cluster.Events {
	return cluster.Events{JoinFailed: n.metrics.JoinFailed, Forwarded: n.metrics.Forwarded,
		Again: n.metrics.Again}
}

// load returns how much the engine has to do and holds in memory.
func (n *Node) load() (inFlight, resident, bytes int) {
	s := n.engine.Stats()
	return s.InFlight, s.Resident, s.Bytes
}
