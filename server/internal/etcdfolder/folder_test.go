package etcdfolder_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/carillonhq/carillon/server/internal/etcdfolder"
)

// unpacked is the data folder of a scheduler of Dapr 1.18.3 that was killed: it had 60 jobs, of which some had run or
// ended, then 20 were put again. Its database is older than its log.
func unpacked(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Open("testdata/dapr-1.18.3.tar.gz")
	check(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	check(t, err)
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		check(t, err)
		path := filepath.Join(dir, "member", filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			check(t, os.MkdirAll(path, 0o700))
			continue
		}
		b, err := io.ReadAll(files)
		check(t, err)
		check(t, os.WriteFile(path, b, 0o600))
	}
}

// TestMain reads a folder if the process was started for that.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == etcdfolder.ChildCommand {
		if err := etcdfolder.Child(os.Stdin, os.Stdout, os.Args[2:]); err != nil {
			panic(err)
		}
		return
	}
	m.Run()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sums are hashes of all files.
func sums(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	all := map[string][32]byte{}
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = sha256.Sum256(b)
		return err
	}))
	return all
}

func TestAKilledMemberIsRead(t *testing.T) {
	dir := unpacked(t)
	before := sums(t, dir)
	f, err := etcdfolder.Read(t.Context(), dir, "dapr/")
	check(t, err)
	kinds := map[string]int{}
	for _, p := range f.Pairs {
		kinds[strings.Split(string(p.GetKey()), "/")[1]]++
	}
	if kinds["jobs"] != 49 || kinds["counters"] != 17 || f.Revision != 125 { // as dapr scheduler export has it
		t.Errorf("at revision %d it has %v", f.Revision, kinds)
	}
	if after := sums(t, dir); len(after) != len(before) {
		t.Error("files came or went")
	} else {
		for path, sum := range after {
			if before[path] != sum {
				t.Errorf("%s was changed", path)
			}
		}
	}
}

// TestATornLogIsReadAsFarAsItGoes: its last record was cut off by the end of the process.
func TestATornLogIsReadAsFarAsItGoes(t *testing.T) {
	dir := unpacked(t)
	whole, err := etcdfolder.Read(t.Context(), dir, "dapr/")
	check(t, err)
	logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	check(t, err)
	b, err := os.ReadFile(logs[0])
	check(t, err)
	end := len(strings.TrimRight(string(b), "\x00"))
	check(t, os.WriteFile(logs[0], b[:end-40], 0o600))
	torn, err := etcdfolder.Read(t.Context(), dir, "dapr/")
	check(t, err)
	if !torn.Position.Less(whole.Position) || torn.Revision >= whole.Revision || torn.Cluster != whole.Cluster {
		t.Errorf("it is at %v, revision %d; whole it is at %v, revision %d", torn.Position, torn.Revision,
			whole.Position, whole.Revision)
	}
}

func TestARunningMemberIsRefused(t *testing.T) {
	dir := unpacked(t)
	db, err := bbolt.Open(filepath.Join(dir, "member", "snap", "db"), 0o600, nil)
	check(t, err)
	if _, err := etcdfolder.Read(t.Context(), dir, "dapr/"); !errors.Is(err, etcdfolder.ErrRunning) {
		t.Errorf("it is read: %v", err)
	}
	check(t, db.Close())
	_, err = etcdfolder.Read(t.Context(), dir, "dapr/")
	check(t, err)
}

func TestFoldersThatAreNone(t *testing.T) {
	if _, err := etcdfolder.Read(t.Context(), t.TempDir(), "dapr/"); err == nil {
		t.Error("an empty folder is read")
	}
	dir := unpacked(t)
	check(t, os.WriteFile(filepath.Join(dir, "member", "snap", "db"), []byte("no database"), 0o600))
	if _, err := etcdfolder.Read(t.Context(), dir, "dapr/"); err == nil || !strings.Contains(err.Error(), "database") {
		t.Errorf("a damaged database: %v", err)
	}
	dir = unpacked(t)
	check(t, os.RemoveAll(filepath.Join(dir, "member", "wal")))
	if _, err := etcdfolder.Read(t.Context(), dir, "dapr/"); err == nil || !strings.Contains(err.Error(), "log") {
		t.Errorf("no log: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := etcdfolder.Read(ended, unpacked(t), "dapr/"); !errors.Is(err, context.Canceled) {
		t.Errorf("it was ended: %v", err)
	}
}
