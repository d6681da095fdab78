//go:build !unix

package chaos

// stop and goOn are for systems with signals; elsewhere nothing is halted.
func (n *Node) stop() error { return nil }
func (n *Node) goOn() error { return nil }
