package chaos

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// tableReads is how often the kernel's table of sockets is read for one connection. It changes while it is
// read, so that an entry that is there all the time may be missed.
const tableReads = 20

// inodeOf is the socket at the other end of a connection of this machine's loopback interface, as the kernel
// numbers it; "" if there is none any more.
func inodeOf(conn net.Conn) string {
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
	local, here := conn.LocalAddr().(*net.TCPAddr)
	if !ok || !here {
		return ""
	}
	for range tableReads {
		table, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			return ""
		}
		if inode := inodeIn(string(table), remote.Port, local.Port); inode != "" {
			return inode
		}
	}
	return ""
}

// inodeIn finds the socket that is connected from one port to another in the kernel's table. A port alone
// does not name it: there may be several connections from it to different ports, and such as were closed,
// which have no inode.
func inodeIn(table string, from, to int) string {
	const local, remote, inode = 1, 2, 9 // fields
	mine, theirs := fmt.Sprintf(":%04X", from), fmt.Sprintf(":%04X", to)
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > inode && strings.HasSuffix(f[local], mine) && strings.HasSuffix(f[remote], theirs) &&
			f[inode] != "0" {
			return f[inode]
		}
	}
	return ""
}

// holds reports whether a process has the socket.
func holds(pid int, inode string) bool {
	found, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	if err != nil || inode == "" {
		return false
	}
	for _, name := range found {
		if to, err := os.Readlink(name); err == nil && to == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}
