package delivery

import "github.com/carillonhq/carillon"

// Report is a consumer's report of an attempt, and who is told the outcome.
type Report struct {
	carillon.Result
	Namespace string // of the reporter; runs of other namespaces are out of its reach. Empty: the node itself
	// Async means that the consumer took the run and will complete it later with the token (HTTP 202, or
	// a broker whose consumers complete runs). With a message it is not known whether the broker took it, and
	// the message says why: the attempt has failed, unless a consumer has reported progress of it.
	Async bool
	// PauseJob means that the consumer is gone for good (HTTP 410): the run ends as dead, and the job is
	// paused with the message as its note.
	PauseJob bool
	Worker   string   // that ran the attempt
	From     Reporter // nil = nobody
}

// Confirmer is a reporter that asks whether attempts are still in force. Calls must not block.
type Confirmer interface {
	Reporter
	// Confirmed says that the attempt is in force and its lease was extended.
	Confirmed(token string)
}

// Reporter is told the outcome of a report. Calls must not block.
type Reporter interface {
	// Accepted says that the result is durable.
	Accepted(token string)
	// Stale says that the token is not in force and nothing was changed. The consumer must stop that run.
	Stale(token string)
}
