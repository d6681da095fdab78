// Package codec encodes the records of a store as protobuf messages, described by record.proto: small,
// readable by any language, and extensible without a migration. They are written and read by hand, by one
// list of fields for both; proto_test.go proves that this code and record.proto agree.
//
//	coder.go     how a field is written and read
//	spec.go      Spec: a job as its author wrote it
//	target.go    Target and the policies inside a Spec
//	state.go     State: what each step rewrites
//	run.go       RunRecord: a finished run
//	backfill.go  Backfill: a metadata record
//	namespace.go Namespace: a metadata record
//	labels.go    the labels of a Spec, without the rest
//	sealed.go    what is encrypted of these, and how
package codec

import (
	"fmt"

	"github.com/carillonhq/carillon/server/store"
)

// damaged returns an error that names the message whose bytes are wrong.
func damaged(message string, err error) error {
	return fmt.Errorf("%w: %s: %w", store.ErrDamaged, message, err)
}
