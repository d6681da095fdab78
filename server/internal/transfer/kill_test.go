package transfer_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
)

// victim is a variable of the environment: the process is the test's that fills this store, and is killed.
const victim = "CARILLON_TEST_RESTORE_TO"

// TestKilled: a process that restores a backup is killed at random moments, and another one begins again. What
// was restored is not served before it is whole, and in the end nothing is missing or too much.
func TestKilled(t *testing.T) {
	if url := os.Getenv(victim); url != "" {
		restoreAndTell(t, url)
		return
	}
	dir := t.TempDir()
	s := at(t, "pebble:"+filepath.Join(dir, "first"))
	var all transfer.Counts
	play(t, s, 1, things(t, rand.New(rand.NewPCG(7, 8)), &all))
	name, url := filepath.Join(dir, "backup"), "pebble:"+filepath.Join(dir, "last")
	var f bytes.Buffer
	wrote := must[transfer.Result](t)(transfer.Backup(t.Context(), s, &f, time.Now(), nil))
	if err := os.WriteFile(name, f.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(9, 10))
	kills := 10
	if testing.Short() {
		kills = 3
	}
	for range kills {
		killedAfter(t, url, name, 1+dice.Int64N((wrote.Records+wrote.Runs)/2))
		func() {
			s := must[store.Store](t)(store.Open(t.Context(), url, store.Options{}))
			defer s.Close()
			if err := transfer.Usable(t.Context(), s); !errors.Is(err, store.ErrArriving) {
				t.Errorf("a store that is not whole: %v", err)
			}
		}()
	}
	if result := must[transfer.Result](t)(transfer.Restore(t.Context(), &f, opener(url), nil)); result != wrote {
		t.Errorf("restored %+v, written were %+v", result, wrote)
	}
}

// killedAfter has a process restore a backup, and kills it when it has written so many records and runs.
func killedAfter(t *testing.T, url, name string, n int64) {
	t.Helper()
	p := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$", "-test.count=1")
	p.Env = append(os.Environ(), victim+"="+url, victim+"_FROM="+name)
	tells, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(tells)
	for lines.Scan() {
		var done int64
		if _, err := fmt.Sscanf(lines.Text(), "written %d", &done); err == nil && done >= n {
			break
		}
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err == nil {
		t.Fatal("the process came to its end")
	}
}

// restoreAndTell restores a backup and prints how much it has written.
func restoreAndTell(t *testing.T, url string) {
	f, err := os.Open(os.Getenv(victim + "_FROM"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = transfer.Restore(t.Context(), f, opener(url), func(c transfer.Counts) {
		fmt.Printf("written %d\n", c.Records+c.Runs)
	})
	t.Fatalf("restored before it was killed: %v", err)
}
