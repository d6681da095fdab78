package etcdfolder_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/carillonhq/carillon/server/internal/etcdfolder"
)

// region is how large what is damaged at a time is: a page of the database.
const region = 4096

// damages are what can become of a file from a place on; the last two may look as if its end was not written.
var damages = []func(b []byte, at int, r *rand.Rand) []byte{
	func(b []byte, at int, r *rand.Rand) []byte { // garbage
		for i := at; i < min(at+region, len(b)); i++ {
			b[i] = byte(r.Uint32())
		}
		return b
	},
	func(b []byte, at int, r *rand.Rand) []byte { // what is elsewhere
		from := r.IntN((len(b)+region-1)/region) * region
		copy(b[at:min(at+region, len(b))], bytes.Clone(b[from:min(from+region, len(b))]))
		return b
	},
	func(b []byte, at int, _ *rand.Rand) []byte { return b[:at] },
	func(b []byte, at int, _ *rand.Rand) []byte { // zeros
		clear(b[at:min(at+region, len(b))])
		return b
	},
}

func sameRecords(a, b []*mvccpb.KeyValue) bool {
	return slices.EqualFunc(a, b, func(x, y *mvccpb.KeyValue) bool { return proto.Equal(x, y) })
}

// TestADamagedFolderIsAnErrorOrWhole: whatever page is damaged, the folder is read as it was or not at all. Only a log
// that ends early is read as far as it goes, when the database does not show that it had more.
func TestADamagedFolderIsAnErrorOrWhole(t *testing.T) {
	dir := unpacked(t)
	whole, err := etcdfolder.Read(t.Context(), dir, "dapr/")
	check(t, err)
	logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	check(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	refused, every := 0, region
	if testing.Short() {
		every = 7 * region // each kind of damage still comes
	}
	for _, file := range append(logs, filepath.Join(dir, "member", "snap", "db")) {
		good, err := os.ReadFile(file)
		check(t, err)
		for at := 0; at < len(good); at += every {
			for kind, damage := range damages {
				if kind != at/region%len(damages) {
					continue // each reading takes a process: one kind for each page
				}
				check(t, os.WriteFile(file, damage(bytes.Clone(good), at, random), 0o600))
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				got, err := etcdfolder.Read(ctx, dir, "dapr/")
				cancel()
				where := fmt.Sprintf("%s, damage %d at %d", filepath.Base(file), kind, at)
				switch {
				case errors.Is(err, context.DeadlineExceeded):
					t.Errorf("%s: it hangs", where)
				case err != nil && (!strings.Contains(err.Error(), dir) || len(err.Error()) > 2000):
					t.Errorf("%s: the error is %v", where, err)
				case err != nil:
					refused++
				case kind >= 2 && strings.HasSuffix(file, ".wal") && got.Position.Less(whole.Position):
				case !sameRecords(got.Pairs, whole.Pairs):
					t.Errorf("%s: it has other records, at %v and revision %d", where, got.Position, got.Revision)
				}
			}
		}
		check(t, os.WriteFile(file, good, 0o600))
	}
	if refused == 0 {
		t.Error("no damage was found")
	}
}

// TestWhatReadsEndsWithWhoAsked: the process that reads is ended, although it cannot be told to stop: its database is a
// pipe, whose opening waits for a writer.
func TestWhatReadsEndsWithWhoAsked(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such pipes")
	}
	dir := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700))
	check(t, exec.Command("mkfifo", filepath.Join(dir, "member", "snap", "db")).Run())
	t.Run("its context", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := etcdfolder.Read(ctx, dir, "dapr/"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("its parent", func(t *testing.T) {
		program, err := os.Executable()
		check(t, err)
		scratch := filepath.Join(t.TempDir(), "scratch")
		check(t, os.Mkdir(scratch, 0o700))
		child := exec.Command(program, etcdfolder.ChildCommand, filepath.Join(dir, "member"), "dapr/", scratch)
		alive, err := child.StdinPipe()
		check(t, err)
		check(t, child.Start())
		check(t, alive.Close())
		if err := child.Wait(); err == nil {
			t.Error("it has ended as if it had read all")
		}
		if _, err := os.Stat(scratch); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its folder is left: %v", err)
		}
	})
}
