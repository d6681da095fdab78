package partition

import "github.com/carillonhq/carillon"

// Report is what a consumer says of an attempt, and whom to tell what became of it.
type Report struct {
	carillon.Result
	Namespace string // of who reports; another namespace's runs are none of its business. Empty = the node itself
	// Async says that the consumer took the run and will complete it later with the token (HTTP 202).
	Async bool
	// PauseJob says that the consumer is gone for good (HTTP 410): the run is dead and the job is paused with the message.
	PauseJob bool
	Worker   string   // who ran it
	From     Reporter // nil = nobody
}

// Confirmer is a reporter that asks whether attempts are in force. Calls must not block.
type Confirmer interface {
	Reporter
	// Confirmed: the attempt is in force, and its lease was extended.
	Confirmed(token string)
}

// Reporter is told what became of a report. Calls must not block.
type Reporter interface {
	// Accepted: the result is durable.
	Accepted(token string)
	// Stale: the token is not in force, nothing was changed; the consumer must stop that run.
	Stale(token string)
}
