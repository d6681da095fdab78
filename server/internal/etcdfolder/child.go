package etcdfolder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/protobuf/proto"
)

// ChildCommand is the first argument of a process that reads a folder; [Child] takes those that follow.
const ChildCommand = "read-etcd-folder"

// isChild reports whether this process was started to read a folder.
func isChild() bool { return len(os.Args) > 1 && os.Args[1] == ChildCommand }

// part is what a child writes to its standard output, as JSON: pairs, then what else was read, or why the
// folder cannot be read. A child that ends without either was ended by the folder.
type part struct {
	Pair    []byte  `json:"pair,omitempty"`    // a [mvccpb.KeyValue]
	Settled []byte  `json:"settled,omitempty"` // likewise
	Folder  *Folder `json:"folder,omitempty"`
	Error   string  `json:"error,omitempty"`
	Running bool    `json:"running,omitempty"` // the error is ErrRunning
}

// Child reads a folder for the process that has started this one with [ChildCommand], and writes what it has
// to out. args are those that follow: the folder "member", the prefix of the keys, and a folder to work in.
// It returns when it is done or when in ends, and then the process has to end.
//
// Nothing here recovers from a panic or closes what etcd's packages have opened: after a panic they hold
// locks, and closing would wait for ever. The end of the process closes all.
func Child(in io.Reader, out io.Writer, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("%s: carillon calls it by itself, with 3 arguments", ChildCommand)
	}
	r := reader{dir: args[0], prefix: args[1], copied: filepath.Join(args[2], "db"), log: childLog()}
	if err := r.limitMemory(); err != nil {
		return err
	}
	done, left := make(chan error, 1), make(chan error, 1)
	go func() { done <- r.write(json.NewEncoder(out)) }()
	go func() {
		_, err := io.Copy(io.Discard, in)
		left <- errors.Join(errors.New("what has started it has ended"), err)
	}()
	select {
	case err := <-done:
		return err
	case err := <-left: // reading cannot be told to stop, but the process ends
		return errors.Join(err, os.RemoveAll(args[2]))
	}
}

// childLog says why etcd's packages end the process.
func childLog() *zap.Logger {
	words := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "message"})
	return zap.New(zapcore.NewCore(words, zapcore.Lock(os.Stderr), zap.DPanicLevel))
}

// write reads the folder and writes what it has.
func (r *reader) write(out *json.Encoder) error {
	f, err := r.read()
	if err != nil {
		return out.Encode(part{Error: err.Error(), Running: errors.Is(err, ErrRunning)})
	}
	for _, kv := range f.Pairs {
		if err := r.writePair(out, kv, false); err != nil {
			return err
		}
	}
	for _, kv := range f.SettledPairs {
		if err := r.writePair(out, kv, true); err != nil {
			return err
		}
	}
	return out.Encode(part{Folder: f})
}

func (r *reader) writePair(out *json.Encoder, kv *mvccpb.KeyValue, settled bool) error {
	b, err := proto.Marshal(kv)
	if err != nil {
		return err
	}
	if settled {
		return out.Encode(part{Settled: b})
	}
	return out.Encode(part{Pair: b})
}

// Bounds of a child's memory: what it takes grows with the folder.
const (
	leastMemory     = 1 << 30
	memoryPerByteOf = 4
)

// limitMemory makes the process end when it takes much more memory than a folder of this size needs.
func (r *reader) limitMemory() error {
	var size int64
	err := filepath.WalkDir(r.dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // what cannot be read is found later
		}
		if info, err := d.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return limitMemory(leastMemory + memoryPerByteOf*uint64(size))
}
