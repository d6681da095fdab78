package delivery

import "time"

// Consumers are those who take the runs of a queue, as the hub of a node knows them.
type Consumers struct {
	N        int // connections of workers or sidecars; for HTTP and brokers 1 while in use
	Silent   int // of them, those that get nothing until they send something
	Credits  int // runs that they have room for
	InFlight int // attempts that they have

	Left        time.Time // when the last one left; zero: somebody is there, nobody was, or it is forgotten
	PausedUntil time.Time // nothing is sent to the HTTP host, or the broker, until then
	PausedFor   string    // why, of a broker
	// TriesFor is why a broker gets one run at a time, which tries whether it takes more. "": it does not.
	TriesFor string
	Leaving  bool // the node ends, and hands out nothing more
	// Bound is how many attempts may be in flight at the node after its start with a backlog, and Bounded how
	// many are. 0: there is no bound.
	Bound, Bounded int
	Shared         bool // what is left of the bound is left to other queues
	// Awaited is how many attempts of a broker's queue await their completion on the node or are about to leave,
	// and MostAwaited how many may. 0: there is no bound.
	Awaited, MostAwaited int

	// Of all nodes, if others were asked as well.
	Elsewhere         int // connections to other nodes
	CreditsElsewhere  int
	InFlightElsewhere int
	Unheard           []string // nodes, by id, that have not answered
}
