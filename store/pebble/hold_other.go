//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package pebble

import "io"

// lockFolder does nothing: the lock file is all there is on this system.
func lockFolder(string) (io.Closer, error) { return holds(nil), nil }
