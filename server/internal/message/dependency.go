package message

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// Dependency says that the job Name waits for successes of the job Of, in the same namespace.
type Dependency struct {
	Of   carillon.Key
	Name string
}

// Waiting returns the key of the job that waits.
func (e Dependency) Waiting() carillon.Key {
	return carillon.Key{Namespace: e.Of.Namespace, Name: e.Name}
}

// Notice tells a job that waits of a success.
type Notice struct {
	Dependency
	By store.RunID
	// Stamp orders the notices of a dependency over all owners, so that one that was overtaken by a newer one
	// changes nothing: the owner's epoch, and the number of that owner's notice. Epoch 0: not known, as from a
	// node of an older version, or of what was found in the history.
	Stamp Stamp
}

// Answer is the outcome of a notice.
type Answer uint8

// The answers.
const (
	Unreached Answer = iota // it could not be delivered; try again
	Taken                   // the job knows of the success, durably
	Nobody                  // there is no such job, or it does not wait for the other one
)

// RegisterDependencies records dependencies on jobs of the partition. The reply says which of those jobs
// exist.
type RegisterDependencies struct{ Dependencies []Dependency }

// DeliverNotice delivers a completion notice to a waiting job of the partition.
type DeliverNotice struct{ Notice Notice }

// StillWaits asks whether a job of the partition still waits for the dependency.
type StillWaits struct{ Dependency Dependency }

func (RegisterDependencies) message() {}
func (DeliverNotice) message()        {}
func (StillWaits) message()           {}

func (RegisterDependencies) replies([]bool) {}
func (DeliverNotice) replies(Answer)        {}
func (StillWaits) replies(bool)             {}
