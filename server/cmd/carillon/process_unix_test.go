//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

func TestTailKeepsTheEnd(t *testing.T) {
	w := &tail{most: 5}
	for _, s := range []string{"abc", "defg", "hi", "0123456789"} {
		if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", s, n, err)
		}
	}
	if got := string(w.last()); got != "56789" {
		t.Errorf("kept %q", got)
	}
}

func TestProgram(t *testing.T) {
	for command, want := range map[string]struct{ failure, result string }{
		"exit 0":                       {},
		"echo done":                    {"", "done\n"},
		"exit 3":                       {"exit status 3", ""},
		"echo why >&2; false":          {"exit status 1: why", "why\n"},
		"echo out; exec >&2; echo err": {"", "out\nerr\n"},
		"echo begun; kill -9 $$":       {"signal: killed", "begun\n"},
		"echo x; sleep 60 & exit 0":    {"", "x\n"}, // what it leaves behind holds its standard error
		"sleep 60 & exit 3":            {"exit status 3", ""},
		"head -c 100000 /dev/zero; false": {"exit status 1", "[the first 34518 bytes are left out]\n" +
			strings.Repeat("\x00", 65482)},
	} {
		p := &program{args: []string{"sh", "-c", command}, out: io.Discard, errs: io.Discard,
			killAfter: time.Second}
		failure := ""
		result, err := p.Run(t.Context(), &carillon.Run{}, strings.NewReader(""))
		if err != nil {
			failure = err.Error()
		}
		if failure != want.failure || sorted(string(result)) != sorted(want.result) {
			t.Errorf("%q: %q, %.100q; want %q, %.100q", command, failure, result, want.failure, want.result)
		}
	}
}

// sorted returns the lines sorted: those of two streams come in no fixed order.
func sorted(lines string) string { return strings.Join(slices.Sorted(strings.Lines(lines)), "") }

func TestTailKeepsWholeCharacters(t *testing.T) {
	last := &tail{most: 100}
	for range 99 {
		if n, err := last.Write([]byte("é€")); n != 5 || err != nil {
			t.Fatal(n, err)
		}
	}
	text := string(last.text())
	if !utf8.ValidString(text) || len(text) > 100 || !strings.HasPrefix(text, "[the first 4") || !strings.HasSuffix(text, "é€") {
		t.Errorf("%q", text)
	}
}

func TestProgramThatWillNotEnd(t *testing.T) {
	var out strings.Builder
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := context.DeadlineExceeded
	p := &program{args: []string{"sh", "-c", `trap "" TERM; echo started; while :; do sleep 1; done`},
		errs: io.Discard, killAfter: 100 * time.Millisecond,
		out: writerFunc(func(b []byte) { out.Write(b); cancel(reason) })}
	_, err := p.Run(ctx, &carillon.Run{}, strings.NewReader(""))
	if err == nil || !strings.Contains(err.Error(), reason.Error()) || out.String() != "started\n" {
		t.Errorf("error %v, output %q", err, out.String())
	}
}

// oneRun is a node that has one run for whoever comes.
type oneRun chan carillon.Run

func (o oneRun) Connect(context.Context, carillon.Hello) (carillon.Session, error) {
	ended := make(chan struct{})
	return oneRunSession{o, ended, sync.OnceFunc(func() { close(ended) })}, nil
}

type oneRunSession struct {
	runs  oneRun
	ended <-chan struct{}
	end   func()
}

func (oneRunSession) Send(context.Context, carillon.WorkRequest) error { return nil }

func (s oneRunSession) Receive(context.Context) (carillon.WorkResponse, error) {
	select {
	case run := <-s.runs:
		return carillon.WorkResponse{Runs: []carillon.Run{run}}, nil
	case <-s.ended:
		return carillon.WorkResponse{}, io.EOF
	}
}

func (s oneRunSession) Close() error {
	s.end()
	return nil
}

// TestNoCommandOutlivesItsWorker: when the worker gives a run back, its command has been killed.
func TestNoCommandOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	node := make(oneRun, 1)
	node <- carillon.Run{ID: "r", Token: "t", Queue: "q"}
	ctx, leave := context.WithCancel(t.Context())
	pid := 0
	p := &program{args: []string{"sh", "-c", `trap "" TERM; echo $$; while :; do sleep 1; done`},
		errs: io.Discard, killAfter: worker.DefaultReturnTime + time.Second,
		out: writerFunc(func(b []byte) {
			pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
			leave()
		})}
	w := work{options: worker.Options{Grace: -1}}
	if err := w.worker(node, "q", p).Run(ctx); err == nil || pid == 0 {
		t.Errorf("error %v, process %d", err, pid)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the command goes on: %v", err)
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}

// writerFunc is a writer that cannot fail.
type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}
