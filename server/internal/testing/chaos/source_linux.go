package chaos

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// inodeOf is the socket at the other end of a connection of this machine's loopback interface, as the kernel
// numbers it; 0 if there is none any more. The kernel is asked for that one socket: its table of all of them,
// /proc/net/tcp, takes so long to read while many connections are made that they are given up meanwhile.
func inodeOf(conn net.Conn) uint32 {
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
	local, here := conn.LocalAddr().(*net.TCPAddr)
	if !ok || !here || remote.IP.To4() == nil {
		return 0
	}
	answer, err := askKernel(socketRequest(remote, local))
	if err != nil {
		return 0
	}
	return inodeIn(answer)
}

// Parts of the messages of sock_diag(7).
const (
	sockDiag      = 4  // NETLINK_SOCK_DIAG
	byFamily      = 20 // SOCK_DIAG_BY_FAMILY
	headerSize    = 16 // of struct nlmsghdr
	requestSize   = 56 // of struct inet_diag_req_v2
	answerSize    = 72 // of struct inet_diag_msg
	inodeAt       = 68 // in struct inet_diag_msg
	cookiesAt     = 48 // in struct inet_diag_req_v2
	answerTimeout = 1  // second
)

// socketRequest asks for the socket that is connected from one address to another.
func socketRequest(from, to *net.TCPAddr) []byte {
	b := make([]byte, headerSize+requestSize)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], byFamily)
	binary.NativeEndian.PutUint16(b[6:], syscall.NLM_F_REQUEST)
	q := b[headerSize:]
	q[0], q[1] = syscall.AF_INET, syscall.IPPROTO_TCP
	binary.NativeEndian.PutUint32(q[4:], ^uint32(0)) // in any state
	binary.BigEndian.PutUint16(q[8:], uint16(from.Port))
	binary.BigEndian.PutUint16(q[10:], uint16(to.Port))
	copy(q[12:], from.IP.To4())
	copy(q[28:], to.IP.To4())
	for i := cookiesAt; i < requestSize; i++ {
		q[i] = 0xff // no cookie
	}
	return b
}

// askKernel sends a request about sockets, and returns the answer.
func askKernel(request []byte) ([]byte, error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, sockDiag)
	if err != nil {
		return nil, err
	}
	defer func() { _ = syscall.Close(fd) }()
	patience := syscall.Timeval{Sec: answerTimeout}
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &patience); err != nil {
		return nil, err
	}
	if err := syscall.Sendto(fd, request, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return nil, err
	}
	answer := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, answer, 0)
	return answer[:max(n, 0)], err
}

// inodeIn is the inode in an answer; 0 if it says that there is no such socket.
func inodeIn(answer []byte) uint32 {
	if len(answer) < headerSize+answerSize || binary.NativeEndian.Uint16(answer[4:]) != byFamily {
		return 0
	}
	return binary.NativeEndian.Uint32(answer[headerSize+inodeAt:])
}

// holds reports whether a process has the socket.
func holds(pid int, inode uint32) bool {
	found, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	if err != nil || inode == 0 {
		return false
	}
	socket := fmt.Sprintf("socket:[%d]", inode)
	for _, name := range found {
		if to, err := os.Readlink(name); err == nil && to == socket {
			return true
		}
	}
	return false
}
