package payload_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/keyset"
	"github.com/carillonhq/carillon/server/internal/payload"
)

func newKeys(t *testing.T) *keyset.Set {
	t.Helper()
	k, err := keyset.File{Path: filepath.Join(t.TempDir(), "keys.json")}.Create()
	if err != nil {
		t.Fatal(err)
	}
	return keyset.NewSet(k)
}

// TestObjectsAreEncrypted: nothing of them is readable, and none that was changed, moved or cut off is given
// away. Without its key it is put off; an object from before there were keys is read as it is.
func TestObjectsAreEncrypted(t *testing.T) {
	dir, keys := t.TempDir(), newKeys(t)
	before := open(t, payload.Options{URL: "file:" + dir})
	old, err := before.PutBytes(t.Context(), "ns", []byte("from before"))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, payload.Options{URL: "file:" + dir, Encryption: keys})
	if got, err := read(t.Context(), s, "ns", old); err != nil || string(got) != "from before" {
		t.Errorf("from before there were keys: %q, %v", got, err)
	}
	for _, data := range [][]byte{bytes.Repeat([]byte("mark-0c1d "), 20), bytes.Repeat([]byte("mark-0c1d "), 200_000)} {
		ref, err := s.Put(t.Context(), "ns", bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		path := func(namespace string) string {
			return filepath.Join(dir, "payloads", ref.DayText(), namespace, fmt.Sprintf("%x", ref.SHA256))
		}
		stored, err := os.ReadFile(path("ns"))
		if err != nil || bytes.Contains(stored, []byte("mark-0c1d")) || int64(len(stored)) != keyset.StreamSize(ref.Size) {
			t.Fatalf("%d bytes are stored as %d, %v", len(data), len(stored), err)
		}
		write := func(namespace string, b []byte) {
			t.Helper()
			if err := os.MkdirAll(filepath.Dir(path(namespace)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path(namespace), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		damaged := func(what, namespace string) {
			t.Helper()
			got, err := read(t.Context(), s, namespace, ref)
			if !errors.Is(err, carillon.DataLoss) || len(got) == len(data) {
				t.Errorf("%s: %d bytes, %v", what, len(got), err)
			}
		}
		write("other", stored)
		damaged("in another namespace", "other")
		for _, at := range []int{0, 1, 2, 20, 255, 256, 300, len(stored) - 1} {
			flipped := bytes.Clone(stored)
			flipped[at] ^= 4
			write("ns", flipped)
			damaged(fmt.Sprint("byte ", at, " is changed"), "ns")
		}
		if again, err := s.PutBytes(t.Context(), "ns", data); err != nil || again != ref {
			t.Errorf("put again: %v, %v", again, err)
		}
		if got, err := read(t.Context(), s, "ns", ref); err != nil || !bytes.Equal(got, data) {
			t.Errorf("put again, %d bytes: %v", len(got), err)
		}
		others := open(t, payload.Options{URL: "file:" + dir, Encryption: newKeys(t)})
		_, err = read(t.Context(), others, "ns", ref)
		id := fmt.Sprintf("%08x", keys.Keys().Primary())
		if !errors.Is(err, carillon.Unavailable) || !strings.Contains(err.Error(), id) {
			t.Errorf("without its key: %v", err)
		}
		if _, off := others.PutOff(err); !off {
			t.Error("a run that needs a key is not put off")
		}
	}
}

// TestAnEncryptedObjectWithoutItsKey: a node that has no keys, or others, takes it neither for damaged nor for
// one that it may replace. What refers to it is put, and its runs are put off.
func TestAnEncryptedObjectWithoutItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, keys := t.TempDir(), newKeys(t)
		s := open(t, payload.Options{URL: "file:" + dir, Encryption: keys})
		data := []byte("mark-0c1d, a payload")
		ref, err := s.PutBytes(t.Context(), "ns", data)
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("%08x", keys.Keys().Primary())
		missing := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, carillon.Unavailable) || !strings.Contains(fmt.Sprint(err), id) {
				t.Errorf("%s: %v, want it to be unavailable, and the key %s", what, err, id)
			}
		}
		for what, o := range map[string]payload.Options{"no keys": {URL: "file:" + dir},
			"other keys": {URL: "file:" + dir, Encryption: newKeys(t)}} {
			without := open(t, o)
			_, err = read(t.Context(), without, "ns", ref)
			missing(what+", read", err)
			if _, off := without.PutOff(err); !off {
				t.Errorf("%s: a run that needs the key is not put off", what)
			}
			if got, err := without.Ensure(t.Context(), "ns", ref); err != nil || got != ref {
				t.Errorf("%s: a job that refers to it: %v, %v", what, got, err)
			}
			_, err = without.PutBytes(t.Context(), "ns", data)
			missing(what+", put", err)
		}
		if got, err := read(t.Context(), s, "ns", ref); err != nil || !bytes.Equal(got, data) {
			t.Errorf("with its key, afterwards: %q, %v", got, err)
		}
		path := filepath.Join(dir, "payloads", ref.DayText(), "ns", fmt.Sprintf("%x", ref.SHA256))
		if b, err := os.ReadFile(path); err != nil || bytes.Contains(b, data) {
			t.Errorf("what was encrypted was replaced by %q, %v", b, err)
		}
	})
}
