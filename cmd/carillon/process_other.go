//go:build !unix

package main

import "os/exec"

// ownGroup does nothing: there are no process groups here.
func ownGroup(*exec.Cmd) {}

// endGroup ends the command; there is no way to ask.
func endGroup(cmd *exec.Cmd) { killGroup(cmd) }

// killGroup ends the command, but not what it has started.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() } // gone already: good
