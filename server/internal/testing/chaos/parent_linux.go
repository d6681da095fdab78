package chaos

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends the process when this one ends, however it does.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
