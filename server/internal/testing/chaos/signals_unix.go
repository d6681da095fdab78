//go:build unix

package chaos

import (
	"fmt"
	"os"
	"syscall"
)

// Freeze halts the process where it stands, until [Node.Thaw].
func (n *Node) Freeze() error { return freeze(n.life.Load().cmd.Process) }

// Thaw lets it go on.
func (n *Node) Thaw() error { return thaw(n.life.Load().cmd.Process) }

func freeze(p *os.Process) error { return send(p, syscall.SIGSTOP) }

func thaw(p *os.Process) error { return send(p, syscall.SIGCONT) }

func send(p *os.Process, s syscall.Signal) error {
	if err := syscall.Kill(p.Pid, s); err != nil {
		return fmt.Errorf("send %v to a process: %w", s, err)
	}
	return nil
}
