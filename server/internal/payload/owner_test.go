package payload_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/payload"
)

// TestAPlaceBelongsToOneStoreOfJobs, and nodes of others do not start with it.
func TestAPlaceBelongsToOneStoreOfJobs(t *testing.T) {
	for name, url := range places(t) {
		t.Run(name, func(t *testing.T) {
			first := payload.Options{URL: url, Key: []byte("first")}
			ref, err := open(t, first).PutBytes(t.Context(), "ns", []byte("x"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = payload.Open(t.Context(), payload.Options{URL: url, Key: []byte("second")})
			if err == nil || !strings.Contains(err.Error(), "another store of jobs") {
				t.Errorf("another store: %v", err)
			}
			if got, err := read(t.Context(), open(t, first), "ns", ref); err != nil || string(got) != "x" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// TestNothingIsRemovedFromAnother: a store whose place has become that of another one, or is not there,
// removes nothing, and what it does not find may be there later.
func TestNothingIsRemovedFromAnother(t *testing.T) {
	dir := t.TempDir()
	marker := filepath.Join(dir, "payloads", "OWNER")
	c := newClock()
	s := open(t, payload.Options{URL: "file:" + dir, Now: c.now})
	ref, err := s.PutBytes(t.Context(), "ns", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(marker)
	if err != nil {
		t.Fatal(err)
	}
	c.pass(3)
	for name, change := range map[string]func() error{
		"another": func() error { return os.WriteFile(marker, []byte("another\n"), 0o600) },
		"none":    func() error { return os.Remove(marker) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if did, err := s.Collect(t.Context(), &records{at: nowhere}); !errors.Is(err, carillon.Unavailable) || did.Removed != 0 {
			t.Errorf("%s: %+v, %v", name, did, err)
		}
		absent := carillon.PayloadRef{Size: 1}.On(c.now())
		if _, err := read(t.Context(), s, "ns", absent); !errors.Is(err, carillon.Unavailable) {
			t.Errorf("%s: what is not there: %v", name, err)
		}
		if _, err := s.Ensure(t.Context(), "ns", absent); !errors.Is(err, carillon.Unavailable) {
			t.Errorf("%s: a reference to what is not there: %v", name, err)
		}
	}
	if err := os.WriteFile(marker, own, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t.Context(), s, "ns", ref); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
	if did, err := s.Collect(t.Context(), &records{at: nowhere}); err != nil || did.Removed != 1 {
		t.Errorf("%+v, %v", did, err)
	}
}

// TestObjectsWithoutAnOwner are those of one that is lost: nobody takes them, until it is back.
func TestObjectsWithoutAnOwner(t *testing.T) {
	dir := t.TempDir()
	o := payload.Options{URL: "file:" + dir}
	ref, err := open(t, o).PutBytes(t.Context(), "ns", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	marker := filepath.Join(dir, "payloads", "OWNER")
	if err := os.Rename(marker, marker+"-away"); err != nil {
		t.Fatal(err)
	}
	s := open(t, o)
	wantAway(t, s, ref)
	if err := os.Rename(marker+"-away", marker); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t.Context(), s, "ns", ref); err != nil || string(got) != "x" {
		t.Errorf("when it is back: %q, %v", got, err)
	}
}
