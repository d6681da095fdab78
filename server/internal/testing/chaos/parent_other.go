//go:build !linux

package chaos

import "os/exec"

// dieWithParent is for systems that tell a child of its parent's end.
func dieWithParent(*exec.Cmd) {}
