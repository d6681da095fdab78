package pebble_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// A writer is a process of its own that puts jobs into a store: this test program, started again with the
// folder in its environment. It says what was acknowledged, and ends in order when its input does.
const (
	writerFolder = "CARILLON_PEBBLE_WRITER"
	writerSizes  = "CARILLON_PEBBLE_SIZES" // of the memtable, in bytes, and of a batch, in jobs
)

const writerPartitions = 4

// sizes are a writer's.
type sizes struct{ memTable, batch int }

func (s sizes) String() string { return fmt.Sprintf("%d %d", s.memTable, s.batch) }

// writer is the process.
func writer(dir string) {
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	if err := writeUntil(dir, stop); err != nil {
		fmt.Println("error", err)
	}
}

// writeUntil puts batch after batch until it is told to stop.
func writeUntil(dir string, stop <-chan struct{}) error {
	ctx := context.Background()
	var size sizes
	if _, err := fmt.Sscan(os.Getenv(writerSizes), &size.memTable, &size.batch); err != nil {
		return err
	}
	s, err := pebble.Open(dir, pebble.Options{Partitions: writerPartitions, MemTableBytes: size.memTable})
	if err != nil {
		return err
	}
	terms, err := s.Leaser().Claim(ctx, "node", []int{0, 1, 2, 3}, time.Hour)
	if err != nil {
		return err
	}
	for i := 0; ; i += size.batch {
		select {
		case <-stop:
			return s.Close()
		default:
		}
		p := i / size.batch % writerPartitions
		sh, err := s.Shard(p, terms[p])
		if err != nil {
			return err
		}
		b := &store.Batch{}
		for j := range size.batch {
			b.Puts = append(b.Puts, job(i+j, int64(i+j+1), benchSpec))
		}
		if err := sh.Apply(ctx, b); err != nil {
			return err
		}
		fmt.Println("acked", i+size.batch)
	}
}

// process is a writer as the test sees it.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	acked int
	said  string // what it said in place of an acknowledgement
}

// startWriter starts a writer, which the test ends.
func startWriter(t *testing.T, dir string, size sizes) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), writerFolder+"="+dir, fmt.Sprint(writerSizes, "=", size))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // mostly it has ended
		p.wait()
	})
	return p
}

// read takes one line; false says that the process has no more to say, or said that it failed.
func (p *process) read() bool {
	if !p.lines.Scan() {
		return false
	}
	if _, err := fmt.Sscanf(p.lines.Text(), "acked %d", &p.acked); err != nil {
		p.said = strings.TrimPrefix(p.lines.Text(), "error ")
		return false
	}
	return true
}

// until reads until so many jobs are acknowledged.
func (p *process) until(t *testing.T, jobs int) {
	t.Helper()
	for p.acked < jobs {
		if !p.read() {
			t.Fatalf("the writer ended after %d jobs: %s", p.acked, p.said)
		}
	}
}

// kill ends the process at once and returns how many jobs were acknowledged.
func (p *process) kill(t *testing.T) int {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wait()
	return p.acked
}

// wait reads what is left and waits for the end of the process, and of its locks.
func (p *process) wait() {
	for p.read() {
	}
	_ = p.cmd.Wait() // it was killed, or has said why it failed
}

// end ends the process in order.
func (p *process) end(t *testing.T) int {
	t.Helper()
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	p.wait()
	if p.said != "" {
		t.Fatal(p.said)
	}
	return p.acked
}
