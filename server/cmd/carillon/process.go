package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/tracecontext"
)

// program runs a command once for each run.
type program struct {
	args      []string
	out, errs io.Writer
	killAfter time.Duration // from asking the program to end until killing it
}

// Run gives the command the payload on standard input and the run in its environment. Its exit code is the
// outcome; the last it wrote to standard error is the message of a failure, and the last it wrote at all is
// the result of the run. When ctx ends, the command and everything that it started is asked to end, and
// killed if it does not.
func (p *program) Run(ctx context.Context, run *carillon.Run, payload io.Reader) (result []byte, err error) {
	cmd := exec.Command(p.args[0], p.args[1:]...) //nolint:noctx // ended below, with its whole group
	last, output := &tail{most: carillon.MaxErrorBytes}, &tail{most: carillon.MaxResponse}
	cmd.Stdin = payload
	cmd.Stdout, cmd.Stderr = io.MultiWriter(p.out, output), io.MultiWriter(p.errs, last, output)
	cmd.Env = slices.Concat(slices.DeleteFunc(os.Environ(), ofWorker), environment(run), traceOf(run))
	cmd.WaitDelay = p.killAfter // for background processes that hold the pipes
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer killGroup(cmd) // anything that it has left behind
	var exit error       // valid once ended is closed
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		exit = cmd.Wait()
	}()
	select {
	case <-ended:
		return output.text(), outcomeOf(exit, last)
	case <-ctx.Done():
		p.end(cmd, ended)
		return output.text(), fmt.Errorf("the command was ended: %w", context.Cause(ctx))
	}
}

// end asks the command to end, and kills it if it does not.
func (p *program) end(cmd *exec.Cmd, ended <-chan struct{}) {
	endGroup(cmd)
	select {
	case <-ended:
	case <-time.After(p.killAfter):
		killGroup(cmd)
		<-ended
	}
}

// outcomeOf returns nil for exit code 0, otherwise an error with the last output of the command.
func outcomeOf(err error, last *tail) error {
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case errors.Is(err, exec.ErrWaitDelay):
		return nil // exit code 0; what it has left behind held the pipes
	case !ok:
		return err
	}
	if words := bytes.TrimSpace(last.last()); len(words) > 0 {
		return fmt.Errorf("%s: %s", exit.ProcessState, words)
	}
	return errors.New(exit.String())
}

// runVariables are the names of the variables that describe the run to the command, in the order of
// environment.
var runVariables = []string{"CARILLON_NAMESPACE", "CARILLON_JOB", "CARILLON_RUN_ID", "CARILLON_QUEUE",
	"CARILLON_ATTEMPT", "CARILLON_CAUSE", "CARILLON_SCHEDULED_TIME", "CARILLON_DUE_TIME", "CARILLON_DEADLINE",
	"CARILLON_CONTENT_TYPE", "CARILLON_METADATA"}

// environment returns the variables that describe the run to the command.
func environment(r *carillon.Run) []string {
	metadata, err := json.Marshal(r.Metadata)
	if err != nil {
		metadata = nil // a map of strings can always be encoded
	}
	instant := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	values := []string{r.Namespace, r.Job, r.ID, r.Queue, strconv.Itoa(r.Attempt), r.Cause.String(),
		instant(r.Scheduled), instant(r.Due), instant(r.Deadline), r.Data.ContentType, string(metadata)}
	for i, name := range runVariables {
		values[i] = name + "=" + values[i]
	}
	return values
}

// traceVariables are the variables of a trace context, as OpenTelemetry has them, by the key in the metadata
// of a run.
var traceVariables = map[string]string{tracecontext.Parent: "TRACEPARENT", tracecontext.State: "TRACESTATE"}

// traceOf returns the variables of the trace that the run belongs to; none if it belongs to none.
func traceOf(r *carillon.Run) (out []string) {
	for key, name := range traceVariables {
		if value := r.Metadata[key]; value != "" {
			out = append(out, name+"="+value)
		}
	}
	return out
}

// ofWorker reports whether a variable is the worker's alone: its trace context, which is not the run's, and
// its API key, which a program might print.
func ofWorker(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains([]string{envName(tokenFlag), envName(tokenFileFlag),
		traceVariables[tracecontext.Parent], traceVariables[tracecontext.State]}, name)
}

// tail keeps the last bytes that are written to it. Writes may come from several goroutines.
type tail struct {
	most    int
	mu      sync.Mutex
	bytes   []byte // at most twice as many as are kept, so that few writes move them
	leftOut int
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes = append(t.bytes, p[max(0, len(p)-t.most):]...)
	t.leftOut += max(0, len(p)-t.most)
	if len(t.bytes) > 2*t.most {
		t.keep(t.most)
	}
	return len(p), nil
}

// keep keeps the last n bytes. The lock is held.
func (t *tail) keep(n int) {
	if over := len(t.bytes) - n; over > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[over:]...)
		t.leftOut += over
	}
}

// last returns the last bytes.
func (t *tail) last() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keep(t.most)
	return t.bytes
}

// text returns the last bytes. If something was left out before them, a first line says how much, and they
// begin with a whole character.
func (t *tail) text() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leftOut == 0 && len(t.bytes) <= t.most {
		return t.bytes
	}
	const line = "[the first %d bytes are left out]\n"
	t.keep(t.most - len(line) - 20)
	begun := 0
	for begun < min(utf8.UTFMax, len(t.bytes)) && !utf8.RuneStart(t.bytes[begun]) {
		begun++
	}
	t.keep(len(t.bytes) - begun)
	return append(fmt.Appendf(nil, line, t.leftOut), t.bytes...)
}
