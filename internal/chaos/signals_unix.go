//go:build unix

package chaos

import (
	"fmt"
	"syscall"
)

// stop halts the process where it stands, and goOn lets it go on.
func (n *Node) stop() error { return n.signal(syscall.SIGSTOP) }
func (n *Node) goOn() error { return n.signal(syscall.SIGCONT) }

func (n *Node) signal(s syscall.Signal) error {
	if err := syscall.Kill(n.PID(), s); err != nil {
		return fmt.Errorf("send %v to the node: %w", s, err)
	}
	return nil
}
