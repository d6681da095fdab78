//go:build !linux

package realserver

import (
	"os"
	"os/exec"
	"testing"
)

// setUp refuses another user: elsewhere the tests are not run as root.
func (p *Program) setUp(t testing.TB, _ *exec.Cmd) {
	t.Helper()
	if p.User != "" {
		Missing(t, "a server is started as another user only on Linux")
	}
}

// lookUp is not reached: see setUp.
func lookUp(t testing.TB, name string) (uid, gid int) {
	t.Helper()
	Missing(t, "user "+name+": a server is started as another user only on Linux")
	return 0, 0
}

// killGroup kills the process.
func killGroup(p *os.Process) {
	_ = p.Kill() // it is gone already: that is what is wanted
}

// stopped is not known here.
func stopped(int) bool { return true }
