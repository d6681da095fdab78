package bench

import (
	"compress/gzip"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/profiling"
)

func TestProfiles(t *testing.T) {
	server := httptest.NewServer(profiling.Handler())
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "new")
	b := &Bench{cfg: Config{Profiles: dir, Node: Node{PID: os.Getpid(), Debug: server.Listener.Addr().String()}}}
	for range 2 { // the second overwrites the first
		w, err := b.begin(t.Context(), "some")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.end(&Result{}); err != nil {
			t.Fatal(err)
		}
		w.close()
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
		readProfile(t, filepath.Join(dir, f.Name()))
	}
	const want = "some.allocs-before.pb.gz some.allocs.pb.gz some.cpu.pb.gz some.heap.pb.gz"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("files %s, want %s", got, want)
	}
}

func readProfile(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if n, err := io.Copy(io.Discard, r); err != nil || n == 0 {
		t.Errorf("%s: %d bytes, %v", path, n, err)
	}
}

// A window that is given up leaves no profile under way.
func TestAWindowIsGivenUp(t *testing.T) {
	server := httptest.NewServer(profiling.Handler())
	defer server.Close()
	b := &Bench{cfg: Config{Profiles: t.TempDir(),
		Node: Node{PID: os.Getpid(), Debug: server.Listener.Addr().String()}}}
	w, err := b.begin(t.Context(), "some")
	if err != nil {
		t.Fatal(err)
	}
	w.close()
	if err := <-w.profile.cpu; err == nil {
		t.Error("the profile has ended as if it were whole")
	}
}

func TestProfilesOfANodeThatHasNone(t *testing.T) {
	b := &Bench{cfg: Config{Profiles: t.TempDir()}}
	if _, err := b.begin(t.Context(), "some"); err == nil || !strings.Contains(err.Error(), "--debug-listen") {
		t.Errorf("error %v", err)
	}
}
