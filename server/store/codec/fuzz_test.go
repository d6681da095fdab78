package codec

import (
	"bytes"
	"errors"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// Whatever the bytes are: no panic, an error that wraps ErrDamaged, or a value whose own bytes are read as
// themselves.

func FuzzDecodeSpec(f *testing.F) {
	job := sampleJob()
	f.Add(EncodeSpec(&job))
	f.Add([]byte{0x0a, 0x05, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		SpecLabels(b)
		MatchLabel(b, "team=billing")
		got, err := DecodeSpec(b, carillon.Key{})
		if damagedOnly(t, err) {
			return
		}
		once := EncodeSpec(&got)
		again, err := DecodeSpec(once, carillon.Key{})
		if err != nil || !bytes.Equal(EncodeSpec(&again), once) {
			t.Fatalf("%x is read as %x: %v", once, EncodeSpec(&again), err)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	state := sampleState()
	f.Add(AppendState(nil, &state))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeState(b)
		if damagedOnly(t, err) {
			return
		}
		once := AppendState(nil, &got)
		again, err := DecodeState(once)
		if err != nil || !bytes.Equal(AppendState(nil, &again), once) {
			t.Fatalf("%x is read as %x: %v", once, AppendState(nil, &again), err)
		}
	})
}

func FuzzDecodeRun(f *testing.F) {
	run := sampleRun()
	f.Add(AppendRun(nil, &run))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeRun(b)
		if damagedOnly(t, err) {
			return
		}
		once := AppendRun(nil, &got)
		again, err := DecodeRun(once)
		if err != nil || !bytes.Equal(AppendRun(nil, &again), once) {
			t.Fatalf("%x is read as %x: %v", once, AppendRun(nil, &again), err)
		}
	})
}

func damagedOnly(t *testing.T, err error) bool {
	if err != nil && !errors.Is(err, store.ErrDamaged) {
		t.Fatalf("%v does not wrap ErrDamaged", err)
	}
	return err != nil
}

func FuzzDecodeBackfill(f *testing.F) {
	backfill := store.Backfill{Key: carillon.Key{Namespace: "n", Name: "j"}, Seq: 7, Rate: 2.5,
		Open: []uint64{8, 300, 1 << 40}}
	f.Add(AppendBackfill(nil, &backfill))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeBackfill(b)
		if damagedOnly(t, err) {
			return
		}
		once := AppendBackfill(nil, &got)
		again, err := DecodeBackfill(once)
		if err != nil || !bytes.Equal(AppendBackfill(nil, &again), once) {
			t.Fatalf("%x is read as %x: %v", once, AppendBackfill(nil, &again), err)
		}
	})
}
