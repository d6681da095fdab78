//go:build !unix

package chaos

import "os"

// Freeze and Thaw are for systems with signals; elsewhere nothing is halted.
func (n *Node) Freeze() error { return nil }

// Thaw does nothing here.
func (n *Node) Thaw() error { return nil }

func freeze(*os.Process) error { return nil }

func thaw(*os.Process) error { return nil }
