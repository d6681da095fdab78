package payload

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// TestAFolderAcknowledgesOnlyWhatIsDurable: an object whose name could not be made durable is there, but it
// counts only once all names up to the root are, whoever asks for it.
func TestAFolderAcknowledgesOnlyWhatIsDurable(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), Options{URL: "file:" + dir})
	if err != nil {
		t.Fatal(err)
	}
	f := s.objects.(*folder)
	ref, err := s.PutBytes(t.Context(), "ns", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Dir(f.path(s.name("ns", ref)))
	all := []string{at, filepath.Dir(at), filepath.Join(dir, objectsFolder), dir}
	broken := errors.New("the disk is gone")
	for _, bad := range append(all, "") {
		synced := map[string]bool{}
		f.sync = func(folder string) error {
			synced[folder] = folder != bad
			if folder == bad {
				return broken
			}
			return syncFolder(folder)
		}
		for name, do := range map[string]func() error{
			"put": func() error { return f.CreateFrom(t.Context(), s.name("ns", ref), strings.NewReader("x"), 1) },
			"ensure": func() error {
				_, err := s.Ensure(t.Context(), "ns", ref)
				return err
			},
			"another": func() error {
				other := ref
				other.SHA256[0] ^= byte(len(bad))
				return f.CreateFrom(t.Context(), s.name("ns", other), strings.NewReader("y"), 1)
			},
		} {
			clear(synced)
			if err := do(); errors.Is(err, broken) != (bad != "") {
				t.Errorf("%s, with %q broken: %v", name, bad, err)
			}
			for _, folder := range all {
				if bad == "" && !synced[folder] {
					t.Errorf("%s: the names in %s are not made durable", name, folder)
				}
			}
		}
	}
	f.sync = syncFolder
	if got, err := s.Ensure(t.Context(), "ns", ref); err != nil || got != ref {
		t.Errorf("when the disk is back: %v, %v", got, err)
	}
}
