package realserver

import (
	"os"
	"path/filepath"
	"testing"
)

// S3 is a server that speaks S3's protocol: versitygw, on a folder. Its program is built from
// tools/versitygw/go.mod, and is the file CARILLON_VERSITYGW, or carillon/versitygw of the user's cache.
type S3 struct {
	web
	Folder string // of its buckets, each a folder
	// Key and Secret are the credentials of its only user.
	Key, Secret string
}

// StartS3 starts a server that ends with the test, with a bucket.
func StartS3(t testing.TB, bucket string) *S3 {
	t.Helper()
	s := &S3{Folder: Folder(t, ""), Key: "user", Secret: "secret"}
	s.Port, s.health = Port(t), "/health"
	if err := os.Mkdir(filepath.Join(s.Folder, bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	s.program = Program{Path: built(t, "versitygw", "CARILLON_VERSITYGW", "versitygw",
		"github.com/versity/versitygw/cmd/versitygw"), Folder: s.Folder, Args: []string{"--access", s.Key,
		"--secret", s.Secret, "--port", s.Address(), "--health", s.health, "--quiet", "posix", s.Folder}}
	s.Up(t)
	return s
}
