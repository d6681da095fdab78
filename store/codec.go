package store

import (
	"errors"
	"fmt"
)

// The records' bytes are protobuf messages of our own, described by record.proto: small, readable by any language, and
// extensible without a migration. They are written and read by hand, one line a field; codec_proto_test.go proves that
// this code and record.proto agree.
//
//	codec_write.go     how a field is written
//	codec_read.go      how a field is read
//	codec_spec.go      Spec: a job as its author wrote it
//	codec_target.go    Target and the policies inside a Spec
//	codec_state.go     State: what a tick rewrites
//	codec_run.go       RunRecord: a finished run
//	codec_backfill.go  Backfill: a metadata record
//	codec_namespace.go Namespace: a metadata record
//	codec_labels.go    the labels of a Spec, without the rest

// ErrDamaged says that bytes which a store handed out are not what this package wrote.
var ErrDamaged = errors.New("store: damaged record")

// damaged names the message whose bytes are wrong.
func damaged(message string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s: %w", ErrDamaged, message, err)
}
