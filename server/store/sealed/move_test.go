package sealed_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/keyset"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/sealed"
)

// oneBatch is what a store has: one batch, in its first partition.
type oneBatch struct{ *store.Batch }

// Head implements [transfer.Source].
func (oneBatch) Head() transfer.Head { return transfer.Head{Partitions: 1} }

// Kinds implements [transfer.Source].
func (oneBatch) Kinds(context.Context, string, transfer.Taker) error { return nil }

// Each implements [transfer.Source].
func (b oneBatch) Each(ctx context.Context, take transfer.Taker) error { return take(ctx, 0, b.Batch) }

// TestWhatCannotBeDecryptedIsNotMoved: neither as it is nor as an error in its place. Whatever it is, the move
// stops and says which record it is.
func TestWhatCannotBeDecryptedIsNotMoved(t *testing.T) {
	_, keys := newKeys(t)
	box := sealed.New(keyset.NewSet(keys))
	move := func(b *store.Batch) error {
		t.Helper()
		to, err := box.Renew(t.Context(), oneBatch{b})
		if err != nil {
			t.Fatal(err)
		}
		return to.Each(t.Context(), func(context.Context, int, *store.Batch) error { return nil })
	}
	fresh := func() *store.Batch {
		t.Helper()
		b, _, err := box.Batch(secretBatch())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if err := move(fresh()); err != nil {
		t.Fatal(err)
	}
	kind := func(b *store.Batch, kind byte) *store.MetaRecord {
		return &b.MetaRecords[slices.IndexFunc(b.MetaRecords, func(r store.MetaRecord) bool { return r.Kind == kind })]
	}
	begin := binary.BigEndian.AppendUint32([]byte{1}, keys.Primary()) // of what is encrypted
	flip := func(b []byte) { b[len(b)-1] ^= 1 }
	for what, c := range map[string]struct {
		spoil func(b *store.Batch)
		name  string
	}{
		"a spec": {func(b *store.Batch) { flip(b.Puts[0].Spec) }, `the job "shop/job"`},
		"the messages of a state": {func(b *store.Batch) {
			m := []byte(b.Puts[0].State.Run.Message)
			flip(m)
			b.Puts[0].State.Run.Message = string(m)
		}, `the job "shop/job"`},
		"a pending run of another job": {func(b *store.Batch) {
			b.Puts[0].Spec, b.Puts[0].Ref = nil, store.Ref{Key: carillon.Key{Namespace: "shop", Name: "other"}, Seq: 3}
		}, `the pending run 3 of "shop/other"`},
		"the result of a run":    {func(b *store.Batch) { flip(b.Runs[0].Response) }, `of "shop/job"`},
		"a result without a key": {func(b *store.Batch) { b.Runs[0].Response[0] = 9 }, `of "shop/job"`},
		"the spec of a run":      {func(b *store.Batch) { flip(b.Runs[0].Spec) }, `of "shop/job"`},
		"a spec without a key": {func(b *store.Batch) {
			b.Puts[0].Spec[bytes.Index(b.Puts[0].Spec, begin)] = 9
		}, `the job "shop/job"`},
		"settings":         {func(b *store.Batch) { flip(kind(b, store.KindNamespace).Value) }, `"shop"`},
		"a job of a batch": {func(b *store.Batch) { flip(kind(b, store.KindIntent).Value) }, `"batch`},
		"events": {func(b *store.Batch) {
			e := kind(b, store.KindEvents).Value
			e[bytes.Index(e, begin)+20] ^= 1
		}, `of kind 'v'`},
	} {
		b := fresh()
		c.spoil(b)
		err := move(b)
		if !errors.Is(err, store.ErrSealed) || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s: %v, want it to name %s", what, err, c.name)
		}
	}
}
