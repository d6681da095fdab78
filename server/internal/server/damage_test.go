package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/worker"
)

// damagedJobs are enough for a table of many blocks.
const damagedJobs = 3000

// TestADamagedTable flips a bit in a table of a node's store. What stands in that block is lost, and said to
// be so: in the answers, in readiness, in the metrics and in one line of the log. Everything else runs. All
// jobs have to be stored before they are due, for which the race detector is too slow.
func TestADamagedTable(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of jobs within a second are not for -short")
	}
	if os.Getenv(apart) == "" {
		inProcess(t)
		return
	}
	// At 0.22 is the block where API keys would be, if the store had some.
	for _, part := range []float64{0.01, 0.22, 0.4, 0.6, 0.8} {
		t.Run(fmt.Sprint("at=", part), func(t *testing.T) { damagedTable(t, part) })
	}
}

// damagedTable flips a bit at a part of the table.
func damagedTable(t *testing.T, part float64) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	first, stop := serveUntil(t, server.Config{Store: "pebble:" + dir, Partitions: 4})
	w := &rig{t: t, sched: dial(t, first)}
	var jobs []carillon.Job
	due := time.Now().Add(time.Second)
	for i := range damagedJobs {
		jobs = append(jobs, carillon.Job{Name: fmt.Sprint("job/", i), Due: carillon.At(due),
			Target: carillon.WorkerQueue(queue)})
	}
	for len(jobs) > 0 {
		n := min(len(jobs), 500)
		if _, err := w.sched.PutJobs(t.Context(), jobs[:n]); err != nil {
			t.Fatal(err)
		}
		jobs = jobs[n:]
	}
	stop()
	flipBit(t, dir, part)

	var log lines
	s := serve(t, server.Config{Store: "pebble:" + dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	w.sched = dial(t, s)
	lost := w.lost()
	if log.containing("a partition stands still") > 0 {
		t.Logf("the bit was in the settings of a partition: %d jobs cannot be read", len(lost))
		return
	}
	if len(lost) == 0 || len(lost) > damagedJobs/3 {
		t.Fatalf("%d of %d jobs are said to be lost", len(lost), damagedJobs)
	}
	w.othersRun(lost)
	for name := range lost {
		_, err := w.sched.PutJob(t.Context(), carillon.Job{Name: name, Target: carillon.WorkerQueue(queue)})
		if !errors.Is(err, carillon.DataLoss) {
			t.Fatalf("a put of a job that is lost: %v", err)
		}
	}
	if status, text := get(t, "http://"+s.HTTPAddr()+"/readyz"); status != http.StatusServiceUnavailable ||
		!strings.Contains(text, "damaged") {
		t.Errorf("readyz: %d %s", status, text)
	}
	if text := metrics(t, s); !strings.Contains(text, "\ncarillon_store_damaged_tables 1\n") {
		t.Error("the metrics do not tell of the damage")
	}
	if told, all := log.containing("a table of the store is damaged: what stands"), log.containing("damaged"); told != 1 || all > 10 {
		t.Errorf("%d lines of the log tell of the damage, %d speak of it:\n%s", told, all, log.text.String())
	}
}

// lost asks for every job and returns those that the node says to be lost.
func (w *rig) lost() map[string]bool {
	w.t.Helper()
	lost := map[string]bool{}
	for i := range damagedJobs {
		name := fmt.Sprint("job/", i)
		_, err := w.sched.GetJob(w.t.Context(), key(name))
		switch {
		case errors.Is(err, carillon.DataLoss):
			lost[name] = true
		case err != nil:
			w.t.Errorf("get %s: %v", name, err)
		}
	}
	return lost
}

// othersRun waits until every job has run that is not lost.
func (w *rig) othersRun(lost map[string]bool) {
	w.t.Helper()
	var mu sync.Mutex
	ran := map[string]bool{}
	all := make(chan struct{})
	stop := w.work(w.sched, worker.Options{}, func(_ context.Context, r carillon.Run, _ []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if lost[r.Job] || ran[r.Job] { // it was read before the damage was met, and may run
			return nil
		}
		if ran[r.Job] = true; len(ran) == damagedJobs-len(lost) {
			close(all)
		}
		return nil
	})
	defer stop()
	await(w.t, all)
}

// flipBit spoils the largest table.
func flipBit(t *testing.T, dir string, part float64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "db", "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	var largest string
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > len(text) {
			text, largest = b, name
		}
	}
	if largest == "" {
		t.Fatal("there is no table")
	}
	text[int(part*float64(len(text)))] ^= 4
	if err := os.WriteFile(largest, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
