package chaos

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// inodeOf is the socket at the other end of a connection of this machine's loopback interface, as the kernel numbers it.
func inodeOf(conn net.Conn) string {
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return ""
	}
	const local, inode = 1, 9 // fields
	port := fmt.Sprintf(":%04X", remote.Port)
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > inode && strings.HasSuffix(f[local], port) {
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
