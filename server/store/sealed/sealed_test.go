package sealed_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/keyset"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/memory"
	"github.com/carillonhq/carillon/server/store/sealed"
)

// marker is in everything that must not be readable in a store.
const marker = "marker-71c5"

var key = carillon.Key{Namespace: "shop", Name: "job"}

// secretJob has the marker wherever a job can hold something.
func secretJob(key carillon.Key) carillon.Job {
	j := carillon.Job{Namespace: key.Namespace, Name: key.Name, Note: marker + " note",
		Target: carillon.HTTP("https://example.com/hook?token=" + marker), Data: carillon.JSON(marker + " data"),
		Metadata: map[string]string{"card": marker + " metadata"}, Labels: map[string]string{"team": "billing"}}
	j.Target.HTTP.Headers = map[string]string{"Authorization": "Bearer " + marker}
	return j
}

// secretBatch has the marker wherever a batch can.
func secretBatch() *store.Batch {
	j, other := secretJob(key), secretJob(carillon.Key{Namespace: "shop", Name: "other"})
	spec := codec.EncodeSpec(&j)
	failed := []carillon.AttemptError{{Attempt: 1, Message: marker + " error"}, {Attempt: 2}}
	n := carillon.Namespace{Webhooks: []carillon.Webhook{{Name: "w", URL: "https://example.com/" + marker,
		Headers: map[string]string{"X": marker}}}}
	events := store.EventList{List: []store.Event{{Type: "a", Key: key, Error: marker, Reason: marker + "!"},
		{Type: "b", Node: "n"}}}
	b := &store.Batch{
		Puts: []store.Record{{Ref: store.Ref{Key: key}, Exists: true, Spec: spec,
			State: store.State{Generation: 3, Run: store.RunState{Live: true, Errors: failed, Message: marker + " progress"}}}},
		Runs: []store.RunRecord{{Key: key, ID: store.RunID{Scheduled: 7}, Status: carillon.RunDead, Errors: failed,
			Response: []byte(marker + " response"), Reason: marker + " reason", Spec: spec, Finished: 9}},
		MetaRecords: partition.CommitIntents("batch", 1, []message.PutRequest{{Job: &other, Trace: "t"}}),
	}
	b.MetaRecords = append(b.MetaRecords,
		store.MetaRecord{Kind: store.KindNamespace, Key: "shop", Value: codec.EncodeNamespace(&n)},
		store.MetaRecord{Kind: store.KindEvents, Key: partition.EventKey(1), Value: codec.AppendEvents(nil, &events)})
	return b
}

// TestNothingReadableIsInABatch: neither as bytes nor in fields, and all of it comes back. What stores look for
// stays.
func TestNothingReadableIsInABatch(t *testing.T) {
	_, keys := newKeys(t)
	box, s := sealed.New(keyset.NewSet(keys)), memory.New(memory.Options{})
	below, above := opened(t, s, box, 3)
	batch := secretBatch()
	before := codec.AppendBatch(nil, batch)
	if !bytes.Contains(before, []byte(marker)) {
		t.Fatal("the batch has no marker")
	}
	apply(t, above, batch)
	if !bytes.Equal(codec.AppendBatch(nil, batch), before) {
		t.Error("the caller's batch has changed")
	}
	out, used, err := box.Batch(batch)
	if err != nil || !slices.Equal(used, []uint32{keys.Primary()}) {
		t.Fatal(used, err)
	}
	if bytes.Contains(codec.AppendBatch(nil, out), []byte(marker)) {
		t.Error("there is a marker in the encrypted batch")
	}
	if l := codec.SpecLabels(out.Puts[0].Spec); l["team"] != "billing" {
		t.Errorf("labels for stores to look for: %v", l)
	}
	if again, _, err := box.Batch(out); err != nil ||
		!bytes.Equal(codec.AppendBatch(nil, again), codec.AppendBatch(nil, out)) {
		t.Errorf("what is encrypted is encrypted once more: %v", err)
	}
	want, got := look(t, batch), read(t, above)
	if !reflect.DeepEqual(want, got) {
		t.Errorf("read\n%s\nwant\n%s", got, want)
	}
	if text := fmt.Sprint(read(t, below)); strings.Contains(text, marker) {
		t.Errorf("below the keys: %s", text)
	}
}

// look is what a partition with a batch holds, as text.
func look(t *testing.T, b *store.Batch) (out []string) {
	t.Helper()
	for i := range b.Puts {
		out = append(out, fmt.Sprintf("%q %+v", b.Puts[i].Spec, b.Puts[i].State))
	}
	for i := range b.Runs {
		b.Runs[i].Cursor = nil
		out = append(out, fmt.Sprintf("%+v", b.Runs[i]))
	}
	for _, r := range b.MetaRecords {
		out = append(out, fmt.Sprintf("%c %q %q", r.Kind, r.Key, r.Value))
	}
	return out
}

// read is look for a shard.
func read(t *testing.T, s store.Shard) []string {
	t.Helper()
	var b store.Batch
	records, err := s.Read(t.Context(), []store.Ref{{Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	b.Puts = records
	if b.Runs, err = s.Runs(t.Context(), store.RunQuery{All: true, Limit: 10}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []byte{store.KindIntent, store.KindNamespace, store.KindEvents} {
		page, err := s.MetaRecords(t.Context(), store.MetaQuery{Kind: kind, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		b.MetaRecords = append(b.MetaRecords, page...)
	}
	return look(t, &b)
}

// TestWhatIsEncryptedStaysWithItsJob: under another job, another namespace or as another part it is refused, and
// so is each of its bits if it is flipped.
func TestWhatIsEncryptedStaysWithItsJob(t *testing.T) {
	_, keys := newKeys(t)
	j := secretJob(key)
	spec, err := codec.SealSpec(keys, key, codec.EncodeSpec(&j))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, key carillon.Key, spec []byte) {
		t.Helper()
		got, err := codec.DecodeSpec(codec.OpenSpec(keys, key, spec), key)
		if err == nil || strings.Contains(fmt.Sprint(got), marker) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	for what, other := range map[string]carillon.Key{"job": {Namespace: "shop", Name: "other"},
		"namespace": {Namespace: "bank", Name: "job"}, "border": {Namespace: "shopj", Name: "ob"}} {
		refused("another "+what, other, spec)
	}
	if got, err := codec.DecodeSpec(codec.OpenSpec(keys, key, spec), key); err != nil || got.Note != j.Note {
		t.Fatalf("its own: %+v, %v", got, err)
	}
	sealedFrom := bytes.Index(spec, []byte{1, byte(keys.Primary() >> 24)})
	for i := sealedFrom * 8; i < len(spec)*8; i++ {
		flipped := bytes.Clone(spec)
		flipped[i/8] ^= 1 << (i % 8)
		refused(fmt.Sprint("bit ", i), key, flipped)
	}
	_, err = codec.DecodeSpec(spec, key)
	if !errors.Is(err, store.ErrSealed) || !strings.Contains(err.Error(), id(keys)) {
		t.Errorf("without keys: %v", err)
	}

	run := secretBatch().Runs[0]
	if err := codec.SealRun(keys, &run); err != nil {
		t.Fatal(err)
	}
	run.Key.Name = "other"
	if err := codec.OpenRun(keys, &run); !errors.Is(err, store.ErrSealed) || !run.Sealed {
		t.Errorf("a run under another job: %v, encrypted still: %t", err, run.Sealed)
	}
	codec.ExplainRun(&run)
	if text := fmt.Sprintf("%+v", run); strings.Contains(text, marker) || !strings.Contains(run.Reason, id(keys)) {
		t.Errorf("a run under another job: %s", text)
	}
	state := secretBatch().Puts[0].State
	if err := codec.SealState(keys, key, &state); err != nil {
		t.Fatal(err)
	}
	was := state.Run.Message
	err = codec.OpenState(keys, carillon.Key{Namespace: "shop", Name: "other"}, &state)
	if !errors.Is(err, store.ErrSealed) || state.Run.Message != was {
		t.Errorf("a state under another job: %v", err)
	}
	codec.ExplainState(&state)
	if text := fmt.Sprintf("%+v", state); strings.Contains(text, marker) || len(state.Run.Errors) != 2 {
		t.Errorf("a state under another job: %s", text)
	}
}

// TestMarksNameTheKeys that a partition needs: one for each, in the batch with the first record, and no more. A
// node without one of them is refused, by its id, and so is one with another key of that id.
func TestMarksNameTheKeys(t *testing.T) {
	file, first := newKeys(t)
	set := keyset.NewSet(first)
	box, s := sealed.New(set), memory.New(memory.Options{})
	below, above := opened(t, s, box, 0)
	plain := &store.Batch{MetaRecords: []store.MetaRecord{{Kind: store.KindQueue, Key: "q", Value: []byte{1}}}}
	apply(t, above, plain)
	if ids, _ := marks(t, below); ids != nil {
		t.Fatalf("nothing is encrypted, and there are marks %v", ids)
	}
	apply(t, above, secretBatch())
	ids, all := marks(t, below)
	if !slices.Equal(ids, []string{id(first)}) {
		t.Fatalf("marks %v, not of %s", ids, id(first))
	}
	_, added, err := file.Add()
	if err != nil {
		t.Fatal(err)
	}
	second, err := file.Promote(added)
	if err != nil {
		t.Fatal(err)
	}
	set.Apply(second)
	if !reflect.DeepEqual(read(t, above), look(t, secretBatch())) {
		t.Error("what the old key has encrypted cannot be read")
	}
	if ids, _ = marks(t, below); len(ids) != 1 {
		t.Errorf("nothing is written, and marks are %v", ids)
	}
	apply(t, above, secretBatch())
	ids, all = marks(t, below)
	if want := []string{id(first), id(second)}; !slices.Equal(ids, slices.Sorted(slices.Values(want))) {
		t.Fatalf("marks %v, not of %v", ids, want)
	}

	admit := func(k *keyset.Keys) error {
		b := sealed.New(keyset.NewSet(k))
		return b.Admit(b.Shard(below), all)
	}
	if err := admit(second); err != nil {
		t.Errorf("with both keys: %v", err)
	}
	if err := admit(first); !errors.Is(err, store.ErrSealed) || !strings.Contains(err.Error(), id(second)) ||
		strings.Contains(err.Error(), id(first)) {
		t.Errorf("without the newer key: %v", err)
	}
	if err := store.CheckUnsealed(all); !errors.Is(err, store.ErrSealed) || !strings.Contains(err.Error(), id(first)) {
		t.Errorf("without keys: %v", err)
	}
	_, stranger := newKeys(t)
	forged := []store.MetaRecord{{Kind: store.KindSeal, Key: id(stranger), Value: all[0].Value}}
	copy(forged[0].Value[1:5], []byte{byte(stranger.Primary() >> 24), byte(stranger.Primary() >> 16),
		byte(stranger.Primary() >> 8), byte(stranger.Primary())})
	b := sealed.New(keyset.NewSet(stranger))
	if err := b.Admit(b.Shard(below), forged); !errors.Is(err, store.ErrSealed) {
		t.Errorf("another key of the same id: %v", err)
	}
}

// TestAPlainStoreGoesOn: what was there is read as it is, and what is written is encrypted.
func TestAPlainStoreGoesOn(t *testing.T) {
	_, keys := newKeys(t)
	box, s := sealed.New(keyset.NewSet(keys)), memory.New(memory.Options{})
	below, above := opened(t, s, box, 0)
	apply(t, below, secretBatch())
	if !reflect.DeepEqual(read(t, above), look(t, secretBatch())) {
		t.Error("what was there is read as something else")
	}
	only := secretBatch()
	only.Puts[0].Spec, only.Runs, only.MetaRecords = nil, nil, nil // a tick: the spec stays as it is
	apply(t, above, only)
	text := fmt.Sprint(read(t, below)[0])
	if strings.Contains(text, marker+" progress") || !strings.Contains(text, marker+" data") {
		t.Errorf("after a tick: %s", text)
	}
}
