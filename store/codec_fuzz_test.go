package store

import (
	"bytes"
	"errors"
	"testing"

	"github.com/carillonhq/carillon"
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
	f.Add(state.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeState(b)
		if damagedOnly(t, err) {
			return
		}
		once := got.Append(nil)
		again, err := DecodeState(once)
		if err != nil || !bytes.Equal(again.Append(nil), once) {
			t.Fatalf("%x is read as %x: %v", once, again.Append(nil), err)
		}
	})
}

func FuzzDecodeRun(f *testing.F) {
	run := sampleRun()
	f.Add(run.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeRun(b)
		if damagedOnly(t, err) {
			return
		}
		once := got.Append(nil)
		again, err := DecodeRun(once)
		if err != nil || !bytes.Equal(again.Append(nil), once) {
			t.Fatalf("%x is read as %x: %v", once, again.Append(nil), err)
		}
	})
}

func damagedOnly(t *testing.T, err error) bool {
	if err != nil && !errors.Is(err, ErrDamaged) {
		t.Fatalf("%v does not wrap ErrDamaged", err)
	}
	return err != nil
}

func FuzzDecodeBackfill(f *testing.F) {
	backfill := Backfill{Key: carillon.Key{Namespace: "n", Name: "j"}, Seq: 7, Rate: 2.5, Open: []uint64{8, 300, 1 << 40}}
	f.Add(backfill.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeBackfill(b)
		if damagedOnly(t, err) {
			return
		}
		once := got.Append(nil)
		again, err := DecodeBackfill(once)
		if err != nil || !bytes.Equal(again.Append(nil), once) {
			t.Fatalf("%x is read as %x: %v", once, again.Append(nil), err)
		}
	})
}
