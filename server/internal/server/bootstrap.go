package server

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/message"
)

// maxFirstKey is how much of the file of a first key is read, in bytes.
const maxFirstKey = 4 << 10

// firstCreator is who has made a first key, as key list and the audit name it.
const firstCreator = "bootstrap key file"

// firstKeyFrom reads the file of a first key, which is an admin of everything. Others than its owner and
// group must not be able to read or change it.
func firstKeyFrom(path string, now time.Time) (k access.Key, err error) {
	f, err := os.Open(path)
	if err != nil {
		return k, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return k, err
	}
	// Windows has no such bits: Go shows what the attribute "read-only" says.
	if mode := info.Mode().Perm(); mode&0o007 != 0 && runtime.GOOS != "windows" {
		return k, fmt.Errorf("%s may be read or written by everybody on this machine (mode %04o): chmod o= %[1]s", path, mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFirstKey))
	if err != nil {
		return k, err
	}
	n := carillon.NewKey{Grants: []carillon.AccessGrant{{Role: carillon.RoleAdmin, Namespaces: []string{"*"}}}}
	k, ok := access.Given(strings.TrimSpace(string(text)), n, firstCreator, now)
	if !ok {
		return k, fmt.Errorf("%s has no API key in it, or a mistyped one: carillon key generate makes one", path)
	}
	return k, nil
}

// makeFirst makes the first key, if there is one to make and the store has none. Until that is done it is
// tried each time that the keys are read: the partition that keeps them may have no owner yet. Of several
// nodes that start with different keys one makes its own.
func (k *keeper) makeFirst(ctx context.Context) {
	if k.first == nil {
		return
	}
	log := k.node.config.Log.With("file", k.node.config.BootstrapKeyFile, "id", k.first.ID)
	if k.has() {
		log.Info("the store has API keys, so the file with a first one is ignored")
		k.first = nil
		return
	}
	within, cancel := context.WithTimeout(ctx, keysWithin)
	defer cancel()
	audited, made := k.node.trail.own(within, firstCreator, "CreateKey", k.first.ID)
	done, err := k.node.engine.ChangeKey(audited, message.ChangeKey{Create: k.first, First: true})
	switch {
	case err != nil && ctx.Err() == nil:
		log.Warn("the first API key cannot be made yet; it is tried again", "error", err)
	case err == nil:
		if done {
			made()
			log.Info("the first API key was made, an admin of all namespaces")
			k.first = nil
		} // otherwise another node has made one, which the next read shows
		if _, err := k.tell(within); err != nil && ctx.Err() == nil {
			log.Info("not all nodes know the first API key yet; they follow within a second", "error", err)
		}
	}
}

// has reports whether the store had keys when they were last read, be they damaged.
func (k *keeper) has() bool {
	k.reading.Lock()
	defer k.reading.Unlock()
	return k.ring.Len()+k.damaged > 0
}
