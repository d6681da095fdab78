//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package pebble

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// lockFolder locks the folder itself, which works whatever happens to the files in it. The lock ends with the
// process.
func lockFolder(dir string) (io.Closer, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOSYS) {
		return d, nil // the lock file alone must do
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}
