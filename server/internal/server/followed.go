package server

import (
	"context"
	"log/slog"
	"os"
	"time"
)

// followed is a file of settings that is read again when it, or a file that it names, has changed.
type followed struct {
	path   string
	what   string           // that is in the file, for the log
	reload <-chan os.Signal // has it read at once; nil: nothing does
	log    *slog.Logger
}

// lookAtFiles is how often a node looks whether they have changed.
const lookAtFiles = 5 * time.Second

// follow has reread put changes in force until ctx ends. It is called with what tells the state in force from
// others, and whether somebody has asked for it, and returns what tells the next one. If the file is broken,
// what is in force stays.
func (f *followed) follow(ctx context.Context, have map[string]string,
	reread func(have map[string]string, asked bool) (map[string]string, error)) {
	look := time.NewTicker(lookAtFiles)
	defer look.Stop()
	complained := ""
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-f.reload:
			asked = true
		case <-look.C:
		}
		next, err := reread(have, asked)
		switch {
		case err == nil:
			have, complained = next, ""
		case asked || err.Error() != complained:
			complained = err.Error()
			f.log.Error("the "+f.what+" stay as they were: their file is at fault", "file", f.path, "error", err)
		}
	}
}
