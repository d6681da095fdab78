package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/embedded"
	"github.com/carillonhq/carillon/worker"
)

// poisonDir is the folder of the process that TestS08AHandlerThatKillsItsProcess starts again and again.
const poisonDir = "CARILLON_TEST_POISON_DIR"

// panicked is the exit code of a process that a panic has ended.
const panicked = 2

const poisonAttempts, poisonOthers = 3, 20

// TestS08AHandlerThatKillsItsProcess runs a job whose handler ends the process, which is started again each time: it runs out
// of attempts, and the other jobs of the folder run.
func TestS08AHandlerThatKillsItsProcess(t *testing.T) {
	if dir := os.Getenv(poisonDir); dir != "" {
		if err := poisoned(dir); err != nil {
			t.Fatal(err)
		}
		return
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	for life := 1; ; life++ {
		cmd := exec.Command(os.Args[0], "-test.run=^TestS08AHandlerThatKillsItsProcess$", "-test.timeout=60s")
		cmd.Env = append(os.Environ(), poisonDir+"="+dir)
		out, err := cmd.CombinedOutput()
		if err == nil {
			break
		}
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != panicked || life > poisonAttempts {
			t.Fatalf("life %d: %v\n%s", life, err, out)
		}
	}
	if starts := lines(t, dir, "starts"); len(starts) != poisonAttempts {
		t.Errorf("started %d times: %v", len(starts), starts)
	}
	seen := map[string]bool{}
	for _, name := range lines(t, dir, "others") {
		seen[name] = true
	}
	if len(seen) != poisonOthers {
		t.Errorf("%d of %d others ran", len(seen), poisonOthers)
	}
}

// poisoned is one life: it ends with a panic in the handler, or in order once the job is dead.
func poisoned(dir string) error {
	s, err := embedded.Open(filepath.Join(dir, "store"), embedded.WithPartitions(1))
	if err != nil {
		return err
	}
	ctx, leave := context.WithTimeout(context.Background(), 50*time.Second)
	defer leave()
	if err := putPoison(ctx, s); err != nil {
		return err
	}
	w := worker.New(s, worker.Options{})
	worker.Handle(w, "poison", func(_ context.Context, run carillon.Run, _ []byte) error {
		if err := note(dir, "starts", fmt.Sprint(run.Attempt)); err != nil {
			return err
		}
		go func() { panic("the handler takes its process with it") }()
		select {}
	})
	worker.Handle(w, "others", func(_ context.Context, run carillon.Run, _ []byte) error { return note(dir, "others", run.Job) })
	left := make(chan error, 1)
	go func() { left <- w.Run(ctx) }()
	dead := carillon.RunDead
	for ctx.Err() == nil {
		page, err := s.ListRuns(ctx, carillon.RunQuery{Status: &dead})
		if err != nil {
			return err
		}
		jobs, err := s.ListJobs(ctx, carillon.JobQuery{})
		if err != nil {
			return err
		}
		if len(page.Runs) == 1 && len(jobs.Jobs) == 0 {
			if n := page.Runs[0].Attempt; n != poisonAttempts {
				return fmt.Errorf("dead after %d attempts", n)
			}
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	leave()
	if err := <-left; err != nil {
		return err
	}
	return s.Close(context.Background())
}

// putPoison puts the jobs in the first life.
func putPoison(ctx context.Context, s *embedded.Scheduler) error {
	job := carillon.Job{Name: "poison", Target: carillon.WorkerQueue("poison"), Lease: time.Second,
		FailurePolicy: carillon.Constant(10 * time.Millisecond).WithMaxRetries(poisonAttempts - 1)}
	jobs := []carillon.Job{job}
	for i := range poisonOthers {
		jobs = append(jobs, carillon.Job{Name: fmt.Sprintf("other/%d", i), Target: carillon.WorkerQueue("others"), Lease: time.Second})
	}
	page, err := s.ListRuns(ctx, carillon.RunQuery{Job: "poison"})
	if err != nil || len(page.Runs) > 0 {
		return err
	}
	if _, err := s.GetJob(ctx, carillon.Key{Namespace: "default", Name: "poison"}); err == nil {
		return nil
	}
	_, err = s.PutJobs(ctx, jobs)
	return err
}

// note adds a line to a file that outlives the process.
func note(dir, name, line string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(line + "\n"); err != nil {
		return err
	}
	return f.Close()
}

func lines(t *testing.T, dir, name string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}
