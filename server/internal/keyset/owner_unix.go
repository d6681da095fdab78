//go:build unix

package keyset

import (
	"io/fs"
	"os"
	"syscall"
)

// takeOwner gives a file the owner and the group of another, as far as this process may. It reports whether
// the file has that group.
func takeOwner(file *os.File, was fs.FileInfo) bool {
	of, ok := was.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	uid, gid := int(of.Uid), int(of.Gid)
	if file.Chown(uid, gid) == nil {
		return true
	}
	return file.Chown(-1, gid) == nil // who is no superuser may give it to groups of his own
}
