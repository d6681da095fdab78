//go:build unix

package payload_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/payload"
)

// dying is what a process that kills itself has behind its edge: the object is stored, the job is not.
type dying struct{ carillon.Jobs }

func (dying) PutJob(context.Context, carillon.Job, ...carillon.PutOption) (carillon.PutResult, error) {
	return carillon.PutResult{}, die()
}

func die() error { return syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// dyingReader kills the process in the middle of a payload.
type dyingReader struct{}

func (dyingReader) Read([]byte) (int, error) { return 0, errors.Join(io.ErrUnexpectedEOF, die()) }

// dieAt is where the process of the test kills itself: in the environment of the process that the test starts.
const dieAt, dieIn = "CARILLON_TEST_DIE_AT", "CARILLON_TEST_DIE_IN"

// TestAProcessIsKilled while a payload comes, and between the object and its job. What it leaves is whole,
// belongs to nothing, and is collected.
func TestAProcessIsKilled(t *testing.T) {
	if at := os.Getenv(dieAt); at != "" {
		s := open(t, payload.Options{URL: "file:" + os.Getenv(dieIn)})
		switch at {
		case "payload":
			_, err := s.Put(t.Context(), "default", io.MultiReader(bytes.NewReader(some(1<<20)), dyingReader{}))
			t.Fatal(err)
		case "job":
			jobs := payload.Edge{Store: s, Bounds: carillon.DefaultBounds()}.Jobs(dying{})
			_, err := jobs.PutJob(t.Context(), carillon.Job{Name: "x", Target: carillon.WorkerQueue("q"),
				Data: carillon.Bytes(some(1000), "")})
			t.Fatal(err)
		}
	}
	for at, objects := range map[string]int{"payload": 0, "job": 1} {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAProcessIsKilled$")
		cmd.Env = append(os.Environ(), dieAt+"="+at, dieIn+"="+dir)
		out, err := cmd.CombinedOutput()
		if !strings.Contains(cmd.ProcessState.String(), "killed") {
			t.Fatalf("%s: %v\n%s", at, err, out)
		}
		if n := len(files(t, dir)); n != objects {
			t.Errorf("%s: %d objects are there, want %d", at, n, objects)
		}
		c := newClock()
		s := open(t, payload.Options{URL: "file:" + dir, Now: c.now})
		if objects == 1 {
			ref, err := s.PutBytes(t.Context(), "default", some(1000))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := read(t.Context(), s, "default", ref); err != nil || !bytes.Equal(got, some(1000)) {
				t.Errorf("%s: the object is not whole: %d bytes, %v", at, len(got), err)
			}
		}
		leftover(t, dir)
		c.pass(4)
		if got, err := s.Collect(t.Context(), &records{at: nowhere}); err != nil || got.Removed != uint64(objects) {
			t.Errorf("%s: %+v, %v", at, got, err)
		}
		if left := files(t, dir); len(left) != 0 {
			t.Errorf("%s: there is still %v", at, left)
		}
	}
}

// leftover writes what a process leaves that is killed while it writes an object.
func leftover(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "arriving", "123")
	if err := errors.Join(os.WriteFile(path, []byte("begun"), 0o600),
		os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour))); err != nil {
		t.Fatal(err)
	}
}
