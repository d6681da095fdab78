package store

import "errors"

// Errors of a store. Any other error of Apply means that the batch was certainly not applied.
var (
	// ErrFenced: the term is no longer in force; nothing was applied and nothing of this term ever will be.
	ErrFenced = errors.New("store: the partition has another owner")
	// ErrUnknown: the batch may or may not have been applied. The owner must stop acknowledging, claim again
	// and reload.
	ErrUnknown = errors.New("store: it is not known whether the write was applied")
	// ErrTaken: another process is a living member with the same id.
	ErrTaken = errors.New("store: another node with this id lives")
	// ErrLast: no other living member may own anything.
	ErrLast = errors.New("store: no other node may own anything")
	// ErrAway: the store cannot be opened at present, because its server cannot be reached or is starting.
	// Opening it again may succeed; no other error goes away by itself. See [Away].
	ErrAway = errors.New("store: the server is away")
	// ErrNoStore: there is no store, and none was to be created.
	ErrNoStore = errors.New("there is no store: is this the right place?")
	// ErrFull: the server reports that it has no room for a write, on its disk or in its memory. Nothing was
	// applied, and nothing will be until somebody makes room: to retry at once is useless.
	ErrFull = errors.New("store: the server has no room")
	// ErrDamaged: bytes of the store are not what was written there.
	ErrDamaged = errors.New("store: damaged record")
	// ErrSealed: it is encrypted, and the key is not at hand or does not fit.
	ErrSealed = errors.New("store: encrypted record")
	// ErrOtherStore: a shard was passed to a store that did not make it.
	ErrOtherStore = errors.New("store: the shard is of another store")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("store: closed")
)

// Outcome is how an Apply ended.
type Outcome uint8

// The outcomes of an Apply.
const (
	Applied Outcome = iota
	NotApplied
	Fenced
	Unknown
)

// OutcomeOf returns the outcome that an error of Apply means.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Applied
	case errors.Is(err, ErrFenced):
		return Fenced
	case errors.Is(err, ErrUnknown):
		return Unknown
	}
	return NotApplied
}

// Away marks err as [ErrAway]; its text stays the same.
func Away(err error) error { return &awayError{err} }

type awayError struct{ err error }

func (e *awayError) Error() string   { return e.err.Error() }
func (e *awayError) Unwrap() error   { return e.err }
func (e *awayError) Is(t error) bool { return t == ErrAway }
