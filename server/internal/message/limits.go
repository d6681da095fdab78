package message

import "github.com/carillonhq/carillon/server/internal/delivery"

// LimitTable is the limits that the sidecars of one node have named. Nodes send it to each other whole: at a
// change, every few seconds, and to a node that joins.
type LimitTable struct {
	Node    string // its name in the cluster
	Nonce   uint64 // of its process
	Version uint64 // grows with each change
	Limits  []delivery.NamedLimit
}

// Process names a process of a node.
type Process struct {
	Node  string
	Nonce uint64
}

// Process returns whose table it is.
func (t *LimitTable) Process() Process { return Process{t.Node, t.Nonce} }
