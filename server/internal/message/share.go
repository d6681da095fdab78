package message

import (
	"fmt"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
)

// PutRequest is a put. The job has been validated, and must not be changed afterwards.
type PutRequest struct {
	Job     *carillon.Job
	Options carillon.PutOptions
	Random  [8]byte // random part of a new job's uid

	At    int64        // when it was put; relative times count from then. 0: now
	Spec  []byte       // the spec of the job as it is stored, if the caller has it
	Waits []store.Wait // waits for names that are new in the job's DependsOn

	Trace delivery.Trace // of the call; empty: none
}

// Share is the part of a decided batch that falls to one partition.
type Share struct {
	Batch       string
	Coordinator int // the partition that holds the intents
	Late        bool
	Reqs        []PutRequest
	// Term is the term under which the share may be stored: it is known to belong to the history of the store
	// that holds the batch's intents. The zero term allows any; nodes older than this field send it.
	Term store.Term
	// Hold: the batch is not decided yet. Room of quotas is set aside for the jobs, and nothing is stored.
	Hold bool
}

// OtherTermError says that a share was not stored because it is for another term of the partition. It is also
// the answer to a share without jobs, which asks for the term.
type OtherTermError struct{ Term store.Term }

// Error implements [error].
func (e *OtherTermError) Error() string {
	return fmt.Sprintf("the partition's term has epoch %d, which is not the one that the share is for",
		e.Term.Epoch)
}

// ApplyShare stores the partition's share of a decided batch. The reply is nil if an earlier message has
// stored it. A share without a batch only asks for the partition's term, which is the error's.
type ApplyShare struct{ Share *Share }

// OtherTerm returns the error for a share that was not stored because it is for another term of the
// partition.
func OtherTerm(number int, other *OtherTermError) error {
	return carillon.Errorf(carillon.FailedPrecondition, "term", "partition %d: %w", number, other)
}

func (ApplyShare) message() {}

func (ApplyShare) replies([]carillon.PutResult) {}
