package pebble_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// apart is set in a process of its own for one test.
const apart = "CARILLON_TEST_APART"

// inProcess runs the test in a process of its own: what damage has halted there ends with it.
func inProcess(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), apart+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}

// A merge of tables that meets damage behind a deletion, where Pebble would end the process, leaves a store
// that goes on, and loses nothing but what is damaged.
func TestMergeMeetsDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("merges of damaged tables take too long for -short")
	}
	if os.Getenv(apart) == "" {
		inProcess(t)
		return
	}
	const parts = 6
	for part := range parts {
		t.Run(fmt.Sprint("part=", part), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			p := startWriter(t, dir, sizes{4 << 20, 50})
			p.until(t, 6000)
			acked := p.end(t)
			spoilTable(t, dir, (float64(part)+0.5)/parts)
			s, err := pebble.Open(dir, pebble.Options{MemTableBytes: 256 << 10})
			if err != nil {
				t.Fatal(err)
			}
			shards := own(t, s, writerPartitions)
			deleted, refused := 0, 0
			for i := range acked {
				b := &store.Batch{Deletes: []store.Ref{{Key: key(i)}}}
				if err := shards[i/50%writerPartitions].Apply(t.Context(), b); err != nil {
					refused++
				} else {
					deleted++
				}
			}
			for i := range 3000 { // enough for merges
				b := &store.Batch{Puts: []store.Record{job(acked+i, int64(i+1), make([]byte, 900))}}
				if err := shards[0].Apply(t.Context(), b); err != nil {
					t.Fatalf("put %d: %v", i, err)
				}
			}
			t.Logf("%d deleted, %d refused", deleted, refused)
			if deleted < acked/2 {
				t.Errorf("%d of %d jobs could be deleted", deleted, acked)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
