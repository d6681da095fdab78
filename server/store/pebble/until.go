package pebble

import (
	"encoding/binary"
	"fmt"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"
)

// The leases of a process that was killed end with it, but it must be known how long they would have lasted.
// So an instant that is not before the end of any lease is written with each claim and renewal. Whoever opens
// the folder next learns from it until when the process may have handed out runs. A lease is renewed every
// few seconds, so that is one small write as often.

// untilKey returns the key of that instant: 8 bytes, UTC ns.
func untilKey() []byte { return appendHead(nil, storePartition, kindUntil) }

// readUntil reads it; the zero time if there is none.
func readUntil(db *pebbledb.DB) (at time.Time, err error) {
	value, ok, err := get(source{db, &losses{}}, untilKey())
	if err != nil || !ok {
		return at, err
	}
	if len(value) != 8 {
		return at, fmt.Errorf("end of leases %x: %w", value, errKey)
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(value))).UTC(), nil
}

// lasts writes until when leases last: until, unless others last longer. o.mu is held.
func (o *owners) lasts(out *pebbledb.Batch, until time.Time) error {
	if until.After(o.until) {
		o.until = until
	}
	return out.Set(untilKey(), binary.BigEndian.AppendUint64(nil, uint64(o.until.UnixNano())), nil)
}
