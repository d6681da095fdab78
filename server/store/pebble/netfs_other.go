//go:build !linux

package pebble

// remoteFileSystem cannot tell on this system.
func remoteFileSystem(string) (name string, remote bool) { return "", false }
