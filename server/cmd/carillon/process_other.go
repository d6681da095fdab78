//go:build !unix

package main

import "os/exec"

// ownGroup does nothing: this system has no process groups.
func ownGroup(*exec.Cmd) {}

// endGroup kills the command: this system has no way to ask.
func endGroup(cmd *exec.Cmd) { killGroup(cmd) }

// killGroup kills the command, but not what it has started.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() } // gone already: good
