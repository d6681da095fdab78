package realserver

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// GCS is a server that speaks the protocol of Google Cloud Storage: fake-gcs-server, on a folder, without
// credentials. Its program is built from tools/fakegcs/go.mod, and is the file CARILLON_FAKE_GCS_SERVER, or
// carillon/fake-gcs-server of the user's cache.
type GCS struct {
	web
	Folder string // of its buckets, each a folder
}

// StartGCS starts a server that ends with the test, with a bucket.
func StartGCS(t testing.TB, bucket string) *GCS {
	t.Helper()
	s := &GCS{Folder: Folder(t, "")}
	s.Port, s.health = Port(t), "/storage/v1/b"
	if err := os.Mkdir(filepath.Join(s.Folder, bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	s.program = Program{Path: built(t, "fake-gcs-server", "CARILLON_FAKE_GCS_SERVER", "fakegcs",
		"github.com/fsouza/fake-gcs-server"), Folder: s.Folder,
		Args: []string{"-backend", "filesystem", "-filesystem-root", s.Folder, "-scheme", "http",
			"-host", "127.0.0.1", "-port", strconv.Itoa(s.Port), "-log-level", "warn"}}
	s.Up(t)
	return s
}
