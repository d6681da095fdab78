//go:build unix

package keyset

import (
	"io/fs"
	"os"
	"syscall"
)

// takeOwner gives a file that this process has made the owner and the group of another, as far as it may. It
// reports which of them the file has.
func takeOwner(file *os.File, was fs.FileInfo) (owner, group bool) {
	of, ok := was.Sys().(*syscall.Stat_t)
	if !ok {
		return false, false
	}
	uid, gid := int(of.Uid), int(of.Gid)
	if file.Chown(uid, gid) == nil {
		return true, true
	}
	group = file.Chown(-1, gid) == nil // who is no superuser may give it to groups of his own
	return uid == os.Geteuid(), group
}
