package partition_test

import (
	"bytes"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

func TestIntentsAreReadAsTheyWereWritten(t *testing.T) {
	reqs := batchOf("a", "b/c", "d")
	reqs[1].Job.Paused, reqs[2].Job.Data = true, carillon.Bytes(make([]byte, 5000), "x")
	reqs[0].Trace, reqs[1].Trace = callOf(1), callOf(2)
	small := partition.CommitIntents("id", epoch, reqs)
	for i := range small {
		if partition.IntentID(small[i].Key) != "id" || small[i].Key != partition.WithdrawIntents("id", 3)[i].Key {
			t.Errorf("key %q", small[i].Key)
		}
	}
	got, err := partition.ReadIntents(small)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if g, w := got[i], reqs[i]; g.At != epoch || g.Random != w.Random || g.Job.Paused != w.Job.Paused ||
			g.Job.Key() != w.Job.Key() || g.Trace != w.Trace ||
			!bytes.Equal(g.Spec, codec.EncodeSpec(g.Job)) != g.Job.Paused ||
			!bytes.Equal(g.Job.Data.Bytes, w.Job.Data.Bytes) {
			t.Errorf("read %+v", g)
		}
	}
	if _, err := partition.ReadIntents(small[:2]); err == nil {
		t.Error("a part of a batch is taken for all of it")
	}
	for n := range small[0].Value {
		if _, err := partition.ReadIntents([]store.MetaRecord{{Value: small[0].Value[:n]}}); err == nil {
			t.Fatalf("%d bytes of an intent are taken for all of it", n)
		}
	}
}
