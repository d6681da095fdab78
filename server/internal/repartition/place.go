package repartition

import (
	"errors"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/permit"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// What [Place] returns besides the number of a partition.
const (
	Anywhere = -1 // the record is about the partition that it is in
	Unknown  = -2 // this version does not know the kind
)

// Place returns the partition, of n, in which a metadata record belongs, or what is wrong with the record.
func Place(r *store.MetaRecord, n int) (at int, err error) {
	if err := partition.CheckMeta(r); err != nil {
		return 0, err
	}
	switch r.Kind {
	case store.KindNamespace:
		if _, err = codec.DecodeNamespace(r.Value, r.Key); errors.Is(err, store.ErrSealed) {
			err = nil // its name is readable
		}
		return settingsOf(r.Key, n), err
	case store.KindCalendar:
		namespace, name, _ := strings.Cut(r.Key, "/")
		_, err = codec.DecodeCalendar(r.Value, carillon.Key{Namespace: namespace, Name: name})
		return settingsOf(namespace, n), err
	case store.KindAllocation:
		return permit.CheckAllocation(r, n)
	case store.KindDependency:
		of := strings.Split(r.Key, "\x00")
		return store.PartitionOf(carillon.Key{Namespace: of[0], Name: of[1]}, n), nil
	case store.KindNotice:
		of := strings.Split(r.Key, "\x00")
		return store.PartitionOf(carillon.Key{Namespace: of[0], Name: of[2]}, n), nil
	case store.KindCommand:
		of, err := partition.CommandOf(r)
		return store.PartitionOf(of.Key, n), err
	case store.KindBackfill:
		rec, err := codec.DecodeBackfill(r.Value)
		return store.PartitionOf(rec.Key, n), err
	case store.KindQueue, store.KindTold, store.KindWebhooks, store.KindKey:
		return partition.Home, nil
	case store.KindApplied, store.KindTerms, store.KindIntent, store.KindLimited, store.KindMove,
		store.KindProbe, store.KindParked, store.KindEvents, store.KindWatched, store.KindSeal,
		store.KindAudit, store.KindAuditChain:
		return Anywhere, nil
	}
	return Unknown, nil
}

// settingsOf is the partition of a namespace's settings: that of its empty name of a job.
func settingsOf(namespace string, n int) int {
	return store.PartitionOf(carillon.Key{Namespace: namespace}, n)
}
