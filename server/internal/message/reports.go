package message

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// RelayReports delivers what consumers reported about the partition's attempts to a node that no longer owns
// it.
type RelayReports struct {
	Reports     []delivery.Report // From is nil
	Heartbeats  []carillon.Heartbeat
	Lost        []string // tokens of attempts whose worker disconnected cleanly
	Undelivered []string // tokens of attempts that were never sent, or whose sidecar has disconnected
}

// RelayResult says what became of relayed reports, by token. A report in neither list needs no answer.
type RelayResult struct {
	Accepted []string // the report is durable
	Stale    []string // the attempt is not in force: whoever runs it must stop
}

func (RelayReports) message()            {}
func (RelayReports) replies(RelayResult) {}
