package chaos

import (
	"net"
	"os"
	"testing"
)

// TestWhoHasConnected: the socket at the other end of a connection is found, and the process that has it, also
// when others are connected to the same port, and have been.
func TestWhoHasConnected(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	seen := map[uint32]bool{}
	for i := range 20 {
		far, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		near, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		inode := inodeOf(near)
		if inode == 0 || seen[inode] || !holds(os.Getpid(), inode) || holds(1, inode) {
			t.Errorf("connection %d comes from socket %d", i, inode)
		}
		seen[inode] = true
		if i%2 == 0 {
			continue // it stays open
		}
		if err := far.Close(); err != nil {
			t.Error(err)
		}
		if inode := inodeOf(near); inode != 0 && holds(os.Getpid(), inode) {
			t.Errorf("connection %d, whose other end was closed, comes from socket %d of this process", i, inode)
		}
	}
}
