//go:build unix

package chaos

import (
	"fmt"
	"syscall"
)

// Freeze halts the process where it stands, until [Node.Thaw].
func (n *Node) Freeze() error { return n.signal(syscall.SIGSTOP) }

// Thaw lets it go on.
func (n *Node) Thaw() error { return n.signal(syscall.SIGCONT) }

func (n *Node) signal(s syscall.Signal) error {
	if err := syscall.Kill(n.PID(), s); err != nil {
		return fmt.Errorf("send %v to the node: %w", s, err)
	}
	return nil
}
