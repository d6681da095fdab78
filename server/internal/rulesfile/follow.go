package rulesfile

import (
	"bytes"
	"context"
	"log/slog"
	"reflect"
	"time"

	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/yamlfile"
)

// lookEvery is how often the file is looked at.
const lookEvery = time.Second

// File is a file that is looked at, and the rules that are in force.
type File struct {
	path  string
	use   Use
	rules *access.Rulebook
	log   *slog.Logger

	have []byte // in force
	all  []access.Rule
	seen []byte // by the last look
	told string // the fault that was logged
}

// Open reads a file, and puts its rules in force.
func Open(path string, use Use, rules *access.Rulebook, log *slog.Logger) (*File, error) {
	text, err := yamlfile.Bytes(path)
	if err != nil {
		return nil, err
	}
	all, err := parse(path, text, use)
	if err != nil {
		return nil, err
	}
	rules.Replace(all)
	return &File{path: path, use: use, rules: rules, log: log, have: text, all: all, seen: text}, nil
}

// Follow puts changes of the file in force until ctx ends.
func (f *File) Follow(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.look()
		}
	}
}

// look reads the file. A change counts when two looks have seen the same, so that half a file does not; one
// that is wrong is logged once, and the rules stay as they were.
func (f *File) look() {
	text, err := yamlfile.Bytes(f.path)
	if err == nil {
		again := bytes.Equal(text, f.seen)
		f.seen = text
		if !again {
			return
		}
		if bytes.Equal(text, f.have) {
			f.told = ""
			return
		}
		var all []access.Rule
		if all, err = parse(f.path, text, f.use); err == nil {
			f.have, f.told = text, ""
			if reflect.DeepEqual(all, f.all) { // only comments, say: nobody has to call again
				return
			}
			f.all = all
			f.rules.Replace(all)
			f.log.Info("the rules of callers were read again", "file", f.path, "rules", len(all))
			return
		}
	}
	if err.Error() != f.told {
		f.told = err.Error()
		f.log.Error("the rules of callers stay as they were: their file is at fault", "file", f.path, "error", err)
	}
}
