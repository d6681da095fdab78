package chaos_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/chaos"
	"github.com/carillonhq/carillon/internal/checker"
)

var (
	cycles = flag.Int("cycles", 20, "how often the node of TestKill is killed")
	seed   = flag.Uint64("seed", 0, "what is drawn in TestKill; 0 = something else each time")
	given  = flag.String("binary", "", "the carillon to run; default one that is built from this source")
	out    = flag.String("out", "", "folder for the history and the verdict; default the test's artifacts")
)

// binary is carillon, built once.
var binary = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "carillon-chaos-")
	if err != nil {
		return "", err
	}
	built = folder
	return chaos.Build(context.Background(), folder)
})

var built string

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if built != "" {
		if err := os.RemoveAll(built); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func carillonBinary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("processes are not for -short")
	}
	if *given != "" {
		return *given
	}
	b, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestKill kills a node under load, again and again; see the package's comment.
func TestKill(t *testing.T) {
	o := chaos.Options{Binary: carillonBinary(t), Folder: filepath.Join(t.TempDir(), "store"), Cycles: *cycles, Seed: *seed, Log: t.Logf}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	t.Logf("seed %d; again: go test ./internal/chaos -run TestKill -v -seed %d -cycles %d", o.Seed, o.Seed, o.Cycles)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(o.Cycles)*20*time.Second+2*time.Minute)
	defer cancel()
	h, err := chaos.Run(ctx, o)
	if err != nil {
		t.Errorf("the campaign: %v", err)
	}
	found := chaos.Suspicions(&h)
	for i, text := range found {
		if i == 30 {
			t.Errorf("… and %d more", len(found)-i)
			break
		}
		t.Error(text)
	}
	t.Logf("%d operations, %d attempts, %d results, %d faults, %d finished runs", len(h.Ops), len(h.Attempts), len(h.Results),
		len(h.Faults), len(h.Final.Runs))
	if t.Failed() {
		keep(t, &h)
	}
}

// keep writes the history down.
func keep(t *testing.T, h *checker.History) {
	t.Helper()
	folder := *out
	if folder == "" {
		folder = t.ArtifactDir()
	}
	f, err := os.Create(filepath.Join(folder, "history.json"))
	if err != nil {
		t.Error(err)
		return
	}
	if err := h.Encode(f); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("history: %s", f.Name())
}
