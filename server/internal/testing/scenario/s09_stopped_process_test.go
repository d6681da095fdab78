//go:build unix

package scenario_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/testing/chaos"
)

// hand is a worker in a process of its own, which writes down what it begins.
type hand struct {
	t       *testing.T
	process *os.Process
	ledger  string
}

// begun is an attempt that a command was started for.
type begun struct {
	run     string
	attempt int
	at      time.Time
}

// hire starts `carillon work` at a node.
func (c *city) hire(m *chaos.Member, slots int) *hand {
	c.t.Helper()
	binary, err := built()
	must(c.t, err)
	h := &hand{t: c.t, ledger: filepath.Join(c.t.TempDir(), "ledger")}
	words := []string{"work", "q", "--id", "hired", "--server", m.Front.Address(), "--concurrency",
		fmt.Sprint(slots), "--", "sh", "-c",
		`echo "$CARILLON_RUN_ID $CARILLON_ATTEMPT $(date +%s%N)" >> "$0"`, h.ledger}
	cmd := exec.Command(binary, words...) // ended by the clean-up
	cmd.Env = append(os.Environ(), "CARILLON_SERVER=")
	must(c.t, cmd.Start())
	h.process = cmd.Process
	c.t.Cleanup(func() {
		must(c.t, h.process.Kill())
		_ = cmd.Wait() // it was killed
	})
	return h
}

func (h *hand) signal(s syscall.Signal) {
	h.t.Helper()
	must(h.t, h.process.Signal(s))
}

// begun is what it has begun so far.
func (h *hand) begun() (all []begun) {
	h.t.Helper()
	text, err := os.ReadFile(h.ledger)
	if os.IsNotExist(err) {
		return nil
	}
	must(h.t, err)
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		attempt, err := strconv.Atoi(words[1])
		must(h.t, err)
		ns, err := strconv.ParseInt(words[2], 10, 64)
		must(h.t, err)
		all = append(all, begun{words[0], attempt, time.Unix(0, ns)})
	}
	return all
}

// histories is the finished runs of jobs, by id.
func (c *city) histories(cl *client.Client, jobs []carillon.Job) map[string]carillon.Run {
	c.t.Helper()
	pages := make([]carillon.RunPage, len(jobs))
	var all errgroup.Group
	all.SetLimit(16)
	for i := range jobs {
		all.Go(func() (err error) {
			pages[i], err = cl.ListRuns(c.t.Context(),
				carillon.RunQuery{Job: jobs[i].Name, PageSize: carillon.MaxBatch})
			return err
		})
	}
	must(c.t, all.Wait())
	runs := map[string]carillon.Run{}
	for _, page := range pages {
		for _, r := range page.Runs {
			if r.Status.Finished() {
				runs[r.ID] = r
			}
		}
	}
	return runs
}

// S09: the process of a worker is stopped (SIGSTOP) while it has room and runs are due, beside workers that
// are idle. No run is dead, and when it goes on it begins nothing that another worker has been given.
func TestS09StoppedProcess(t *testing.T) {
	beside(t, 3, func(t *testing.T, c *city) {
		const n = 240
		h := c.hire(c.nodes[0], 40)
		c.employ("idle", c.nodes[1], n, well)
		t0 := time.Now().Add(lead)
		var jobs []carillon.Job
		for i := range n {
			due := carillon.At(t0.Add(time.Duration(i) * 20 * time.Millisecond))
			jobs = append(jobs, carillon.Job{Name: fmt.Sprintf("w/%04d", i), Due: due, Lease: time.Second,
				FailurePolicy: threeTries})
		}
		c.load(jobs)
		c.await("it has begun something", func() bool { return len(h.begun()) > 0 })
		c.at(t0.Add(time.Second))
		h.signal(syscall.SIGSTOP)
		c.at(time.Now().Add(8 * time.Second))
		back := time.Now()
		h.signal(syscall.SIGCONT)
		cl := c.client(c.nodes[0])
		c.await("no job is left", func() bool {
			page, err := cl.ListJobs(t.Context(), carillon.JobQuery{Prefix: "w/", PageSize: 1})
			return err == nil && len(page.Jobs) == 0
		})
		c.at(time.Now().Add(time.Second)) // what it may begin late, it has begun
		runs := c.histories(cl, jobs)
		for _, r := range runs {
			if r.Status != carillon.RunSucceeded {
				t.Errorf("run %s of %s is %v: %v", r.ID, r.Job, r.Status, r.Errors)
			}
			if len(r.Errors) > 1 {
				t.Errorf("run %s of %s has lost %d attempts: %v", r.ID, r.Job, len(r.Errors), r.Errors)
			}
		}
		if len(runs) != n {
			t.Errorf("%d of %d runs are in the history", len(runs), n)
		}
		late := 0
		for _, b := range h.begun() {
			if r := runs[b.run]; b.at.After(back) && r.Attempt != b.attempt {
				late++
				t.Errorf("attempt %d of %s began %v after the process went on, though attempt %d has succeeded",
					b.attempt, r.Job, b.at.Sub(back), r.Attempt)
			}
		}
		t.Logf("the process began %d attempts, %d of them late", len(h.begun()), late)
	})
}
