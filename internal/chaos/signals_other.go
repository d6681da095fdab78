//go:build !unix

package chaos

// Freeze and Thaw are for systems with signals; elsewhere nothing is halted.
func (n *Node) Freeze() error { return nil }

// Thaw does nothing here.
func (n *Node) Thaw() error { return nil }
