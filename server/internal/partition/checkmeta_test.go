package partition

import (
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// TestCheckMeta: what this package writes is right, and is not under another key or with half of its value.
func TestCheckMeta(t *testing.T) {
	key := carillon.Key{Namespace: "default", Name: "a"}
	on := message.Dependency{Of: key, Name: "b"}
	uid := store.NewUID(key, [8]byte{1})
	backfill := store.Backfill{Key: key, UID: uid, Seq: 3}
	terms := Terms{Open: []store.Term{{Epoch: 1, Nonce: 2}}}
	intents := CommitIntents("batch", 1, []message.PutRequest{{Job: &carillon.Job{Namespace: "default", Name: "a"}}})
	events := codec.AppendEvents(nil, &store.EventList{List: []store.Event{{Type: carillon.EventJobDeleted, Node: "n"}}})
	right := []store.MetaRecord{
		DependencyRecord(key, "b"), intents[0], terms.Record(), ParkedRecord("q"),
		{Kind: store.KindNotice, Key: noticeKey(on), Value: store.RunID{UID: uid}.AppendBinary(nil)},
		{Kind: store.KindBackfill, Key: backfillKey(UnfinishedBackfills, store.RunID{UID: uid, Seq: 3}),
			Value: codec.AppendBackfill(nil, &backfill)},
		{Kind: store.KindEvents, Key: EventKey(7), Value: events},
		{Kind: store.KindApplied, Key: "batch", Value: []byte{1}},
		{Kind: store.KindTold, Key: "node/n", Value: codec.AppendTold(nil, &store.Told{Nonce: 9})},
		{Kind: store.KindQueue, Key: "q", Value: codec.EncodeQueuePause(&carillon.QueuePause{Note: "note"})},
		KeyRecord(&access.Key{Hash: access.Hash{1}}),
		{Kind: store.KindWatched, Value: codec.AppendWatched(nil, &store.Watched{Until: 1 << 40})},
		{Kind: store.KindLimited, Key: "limit\x00default\x00a\x000", Value: []byte{1}},
	}
	byValue := map[byte]bool{store.KindDependency: true, store.KindParked: true, store.KindLimited: true}
	byKey := map[byte]bool{store.KindDependency: true, store.KindNotice: true, store.KindBackfill: true,
		store.KindEvents: true, store.KindIntent: true, store.KindLimited: true}
	for _, r := range right {
		if err := CheckMeta(&r); err != nil {
			t.Errorf("kind %c: %v", r.Kind, err)
		}
		if half := r; !byValue[r.Kind] {
			if half.Value = r.Value[:len(r.Value)-1]; CheckMeta(&half) == nil {
				t.Errorf("kind %c is right without the last byte", r.Kind)
			}
		}
		if other := r; byKey[r.Kind] {
			if other.Key = "?"; CheckMeta(&other) == nil {
				t.Errorf("kind %c is right under another key", r.Kind)
			}
		}
	}
	if n, err := IntentCount(&right[1]); n != 1 || err != nil {
		t.Error(n, err)
	}
}
