// Package peer connects the nodes of a cluster over gRPC: [Client] is another node as package cluster wants it, [Server] is this
// node as others see it. Calls of the public API are forwarded whole, into the service over the node's own engine; what partitions
// ask of each other has calls of its own.
package peer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// secretHeader carries the secret in each call.
const secretHeader = "carillon-peer-secret"

// Secret is what nodes of one cluster know each other by: whoever has the store's key has it.
func Secret(macKey []byte) string {
	mac := hmac.New(sha256.New, macKey)
	mac.Write([]byte("carillon.peer.v1"))
	return hex.EncodeToString(mac.Sum(nil))
}

// arriveWithin is how long a request may be on its way at most.
const arriveWithin = 10 * time.Second

// clockSlack is what two nodes may be apart in what they take for the store's clock. A request may arrive so much later: otherwise
// one with little time left would be refused by a node whose clock is ahead.
const clockSlack = time.Second
