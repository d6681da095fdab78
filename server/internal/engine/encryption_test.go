package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/worker"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestAPartitionWhoseKeysAreMissingIsNotOwned: neither by an engine without encryption nor by one with other
// keys.
func TestAPartitionWhoseKeysAreMissingIsNotOwned(t *testing.T) {
	s := memory.New(memory.Options{Partitions: 2})
	terms, err := s.Leaser().Claim(t.Context(), "other", []int{1}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	shard, err := s.Shard(1, terms[0])
	if err == nil {
		err = shard.Apply(t.Context(), &store.Batch{MetaRecords: []store.MetaRecord{{Kind: store.KindSeal,
			Key: "0badcafe", Value: []byte{1}}}})
	}
	if err == nil {
		err = s.Leaser().Release(t.Context(), "other", []store.Holding{{Partition: 1, Term: terms[0]}})
	}
	if err != nil {
		t.Fatal(err)
	}
	for what, sealer := range map[string]engine.Encryption{"none": nil, "others": otherKeys{}} {
		e := engine.New(engine.Config{Store: s, ToStore: engine.ToStore{Encryption: sealer}})
		hub := dispatch.New(e, dispatch.Options{Accept: worker.Accept(worker.Options{})})
		err := e.Start(t.Context(), hub)
		if !errors.Is(err, store.ErrSealed) || !strings.Contains(err.Error(), "partition 1") ||
			!strings.Contains(err.Error(), "0badcafe") {
			t.Errorf("keys: %s: %v", what, err)
		}
		if err := errors.Join(hub.Close(), e.Stop(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

// otherKeys refuse every mark.
type otherKeys struct{ engine.Encryption }

func (otherKeys) Shard(below store.Shard) store.Shard { return below }

func (otherKeys) Admit(_ store.Shard, marks []store.MetaRecord) error {
	return store.CheckUnsealed(marks)
}

func (otherKeys) Writes(writes []store.Write) ([]store.Write, error) { return writes, nil }

func (otherKeys) Reader(below store.Reader) store.Reader { return below }
