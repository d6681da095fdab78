package partition

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// errMetaKey reports the key of a metadata record that has not the form of its kind.
var errMetaKey = errors.New("its key is malformed")

// CheckMeta returns what is wrong with the key or the value of a metadata record, of those kinds that this
// package writes; others are right.
func CheckMeta(r *store.MetaRecord) error {
	var err error
	switch r.Kind {
	case store.KindApplied:
		if _, size := binary.Uvarint(r.Value); size <= 0 {
			err = store.ErrDamaged
		}
	case store.KindAudit:
		if _, err = codec.DecodeAudit(r.Value); err == nil {
			if _, _, ok := store.ParseAuditKey(r.Key); !ok {
				err = errMetaKey
			}
		}
	case store.KindAuditChain:
		_, err = codec.DecodeAuditChain(r.Value)
	case store.KindBackfill:
		err = checkBackfill(r)
	case store.KindCommand:
		_, err = CommandOf(r)
	case store.KindDependency, store.KindNotice:
		err = checkDependency(r)
	case store.KindEvents:
		if _, err = codec.DecodeEvents(r.Value); EventNumber(r.Key) == 0 {
			err = errMetaKey
		}
	case store.KindIntent:
		_, err = IntentCount(r)
	case store.KindKey:
		_, err = codec.DecodeKey(r.Value, r.Key)
	case store.KindLimited:
		if _, ok := permitrecord.ParseHeld(r); !ok {
			err = errMetaKey
		}
	case store.KindTerms:
		_, err = ParseTerms(r.Value)
	case store.KindTold:
		_, err = codec.DecodeTold(r.Value)
	case store.KindQueue:
		_, err = codec.DecodeQueuePause(r.Value)
	case store.KindWatched:
		_, err = codec.DecodeWatched(r.Value)
	}
	return err
}

// checkBackfill compares the key of a backfill with its record.
func checkBackfill(r *store.MetaRecord) error {
	rec, err := codec.DecodeBackfill(r.Value)
	if err != nil {
		return err
	}
	id := store.RunID{UID: rec.UID, Seq: rec.Seq}
	if r.Key != backfillKey(UnfinishedBackfills, id) && r.Key != backfillKey(EndedBackfills, id) {
		return errMetaKey
	}
	return nil
}

// checkDependency checks a dependency or a notice.
func checkDependency(r *store.MetaRecord) error {
	if strings.Count(r.Key, "\x00") != 2 {
		return errMetaKey
	}
	if r.Kind == store.KindNotice {
		_, err := store.DecodeRunID(r.Value)
		return err
	}
	return nil
}

// IntentCount returns how many intents a batch has, by one of them, whose job may be encrypted.
func IntentCount(r *store.MetaRecord) (uint64, error) {
	if len(r.Key) < 6 || r.Key[len(r.Key)-5] != 0 {
		return 0, errMetaKey
	}
	var req message.PutRequest
	h, err := readIntentHead(&req, r.Value)
	if err == nil {
		if _, err = codec.DecodeSpec(r.Value[h.size:], h.of); errors.Is(err, store.ErrSealed) {
			err = nil
		}
	}
	return h.all, err
}

// DependencyRecord returns the metadata record by which the partition of a job knows that another one, of the
// same namespace, waits for it.
func DependencyRecord(of carillon.Key, name string) store.MetaRecord {
	return store.MetaRecord{Kind: store.KindDependency, Value: []byte{1},
		Key: dependencyKey(message.Dependency{Of: of, Name: name})}
}

// ParkedRecord returns the metadata record that names a queue with parked runs.
func ParkedRecord(queue string) store.MetaRecord {
	return store.MetaRecord{Kind: store.KindParked, Key: queue, Value: []byte{1}}
}
