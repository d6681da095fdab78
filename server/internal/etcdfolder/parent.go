package etcdfolder

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// readApart has a child read a member.
func readApart(ctx context.Context, member, prefix, scratch string) (*Folder, error) {
	if isChild() {
		return nil, errors.New("this program was started to read a folder, and does not: it has to call etcdfolder.Child")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, ChildCommand, member, prefix, scratch)
	cmd.Args[0] = "carillon" // called by another name it may be another command
	cmd.Env = []string{"GOTRACEBACK=none", "TMPDIR=" + scratch}
	cmd.WaitDelay = 5 * time.Second
	var why words
	cmd.Stderr = &why
	if _, err := cmd.StdinPipe(); err != nil { // which the end of this process closes
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("it is read by a process of its own, which cannot be started: %w", err)
	}
	f, failed, cut := receive(out)
	if cut != nil && !errors.Is(cut, io.EOF) { // it may go on with something else
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return nil, errors.Join(cut, err)
		}
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case failed != nil:
		return nil, failed
	case cut != nil || err != nil:
		return nil, fmt.Errorf("it is damaged, or memory has no room for it: the process that read it ended early, with %w: %s",
			cmp.Or(err, cut), &why)
	}
	return f, nil
}

// receive reads what a child writes. failed is the error that it names, cut is one of the pipe.
func receive(out io.Reader) (f *Folder, failed, cut error) {
	var pairs, settled []*mvccpb.KeyValue
	for d := json.NewDecoder(out); ; {
		var p part
		if err := d.Decode(&p); err != nil {
			return nil, nil, err
		}
		switch {
		case p.Folder != nil:
			f = p.Folder
			f.Pairs, f.SettledPairs = pairs, settled
			if f.Settled == f.Revision {
				f.SettledPairs = pairs
			}
			return f, nil, nil
		case p.Running:
			return nil, fmt.Errorf("%w; stop Dapr's scheduler first", ErrRunning), nil
		case p.Error != "":
			return nil, errors.New(p.Error), nil
		}
		var kv mvccpb.KeyValue
		if err := proto.Unmarshal(append(p.Pair, p.Settled...), &kv); err != nil {
			return nil, nil, err
		}
		if p.Settled != nil {
			settled = append(settled, &kv)
		} else {
			pairs = append(pairs, &kv)
		}
	}
}

// words keeps what a process says first: after why it ends it lists what it was at.
type words struct{ said []byte }

// mostWords is how many bytes of them are kept.
const mostWords = 1 << 10

func (w *words) Write(b []byte) (int, error) {
	w.said = append(w.said, b[:min(len(b), mostWords-len(w.said))]...)
	return len(b), nil
}

// String returns why it ends, in one line.
func (w *words) String() string {
	why, _, _ := bytes.Cut(bytes.TrimSpace(w.said), []byte("\n\n"))
	if line := strings.Fields(strings.ToValidUTF8(string(why), "?")); len(line) > 0 {
		return strings.Join(line, " ")
	}
	return "it did not say why"
}
