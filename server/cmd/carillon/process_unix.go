//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the command the head of its own process group, so that everything it starts can be ended
// with it, and so that Ctrl-C in a terminal reaches only this program.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup asks the group to end.
func endGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // gone already: good

// killGroup ends what is left of the group.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // gone already: good
