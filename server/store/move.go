package store

import "errors"

// A store that must not be served has the metadata record of kind [KindMove] and key [MoveKey] in each of its
// partitions; its value is one of these. There are others of this kind, which matter to
// server/internal/transfer.
const (
	MoveKey      = "store"
	MoveArriving = "arriving" // it is being filled: see server/internal/transfer
	MoveMoved    = "moved"    // its contents went elsewhere
)

// Errors of a store that must not be served.
var (
	ErrArriving = errors.New("the store is not whole: what is to fill it has not come to its end; run the same command again")
	ErrMoved    = errors.New("the store has moved to another place, where its jobs are now; if carillon migrate has not come to its " +
		"end, run it again")
)

// MoveMarks finds the mark of a partition.
var MoveMarks = MetaQuery{Kind: KindMove, Prefix: MoveKey, Limit: 1}

// CheckMove is an error if what [MoveMarks] finds says that a partition must not be served.
func CheckMove(marks []MetaRecord) error {
	switch {
	case len(marks) == 0:
		return nil
	case string(marks[0].Value) == MoveArriving:
		return ErrArriving
	}
	return ErrMoved
}
