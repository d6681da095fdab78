package partition

import (
	"errors"
	"maps"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
)

// Snapshot is what a new owner of a partition must know before its machine begins: all metadata records of
// some kinds, and the records that attempts with permits belong to. Everything else stays in the store and is
// read as it is needed.
type Snapshot struct {
	Parked []store.MetaRecord // queues with parked runs
	// jobs that wait for jobs of this partition; their puts may be on their way again
	Dependencies []store.MetaRecord
	Notices      []store.MetaRecord // successes to be told; they are told again
	Applied      []store.MetaRecord // batch puts whose share is stored
	Commands     []store.MetaRecord // commands that are done
	Limited      []store.MetaRecord // attempts in force that hold permits
	InForce      []store.Record     // what LimitedRefs(Limited) names
	Backfills    []store.MetaRecord // those with the prefix UnfinishedBackfills
	PausedQueues map[delivery.Queue]carillon.QueuePause
	Keys         []access.Key
	Told         map[string]store.Told
	Watched      []store.MetaRecord // who watches, at most one
	Events       []store.MetaRecord // those that AfterMarks selects
	AuditChains  []store.MetaRecord // of kind store.KindAuditChain
}

// Open makes the machine of a term, as of cfg.Since, from what the store holds. It returns the permits that
// attempts in force hold, for the limiter. An error names backfills, events and audit chains that
// cannot be read: the machine leaves them alone and is of use without them.
func Open(cfg Config, s *Snapshot) (m *Machine, held []delivery.Limit, err error) {
	m = newMachine(cfg)
	m.Permits.loadParked(s.Parked)
	m.Dependencies.load(s.Dependencies, s.Notices, cfg.Since)
	m.Applied.load(s.Applied)
	m.Commands.load(s.Commands, cfg.Since)
	held = m.Permits.load(s.Limited, s.InForce)
	maps.Copy(m.PausedQueues.all, s.PausedQueues)
	m.Keys.load(s.Keys)
	maps.Copy(m.Told.all, s.Told)
	err = errors.Join(m.Backfills.load(s.Backfills, cfg.Since), m.Events.load(s.Watched, s.Events, cfg.Since),
		m.Audit.load(s.AuditChains))
	return m, held, err
}
