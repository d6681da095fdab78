package store

import (
	"errors"
	"fmt"
)

// The records are encoded as protobuf messages, described by record.proto: small, readable by any language,
// and extensible without a migration. They are written and read by hand, one line a field;
// codec_proto_test.go proves that this code and record.proto agree.
//
//	codec_write.go     how a field is written
//	codec_read.go      how a field is read
//	codec_spec.go      Spec: a job as its author wrote it
//	codec_target.go    Target and the policies inside a Spec
//	codec_state.go     State: what each step rewrites
//	codec_run.go       RunRecord: a finished run
//	codec_backfill.go  Backfill: a metadata record
//	codec_namespace.go Namespace: a metadata record
//	codec_labels.go    the labels of a Spec, without the rest

// ErrDamaged reports that bytes from a store are not what this package wrote.
var ErrDamaged = errors.New("store: damaged record")

// damaged returns an error that names the message whose bytes are wrong.
func damaged(message string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s: %w", ErrDamaged, message, err)
}
