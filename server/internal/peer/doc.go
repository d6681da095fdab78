// Package peer connects the nodes of a cluster over gRPC. [Client] is another node as package cluster needs
// it; [Server] is this node as others see it. Calls of the public API are forwarded as a whole, into the
// service over the owner's engine. What partitions ask of each other has rpcs of its own.
//
//	client.go   the connection to another node
//	server.go   how a request is admitted
//	messages.go how each message between partitions is sent and served
//	forward.go  calls of the public API
//	control.go  what nodes ask of each other as nodes
//	convert.go  the parts of messages on the wire
//	errors.go   errors on the wire
//	older.go    refusing what a newer version asks
//	sizes.go    how large a message may be
package peer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// secretHeader is the metadata key under which each call carries the secret.
const secretHeader = "carillon-peer-secret"

// Secret returns the secret by which nodes of one cluster recognize each other. Every node that has the
// store's key can compute it.
func Secret(macKey []byte) string {
	mac := hmac.New(sha256.New, macKey)
	mac.Write([]byte("carillon.peer.v1"))
	return hex.EncodeToString(mac.Sum(nil))
}

// arriveWithin is the longest time that a request may take to arrive.
const arriveWithin = 10 * time.Second

// clockSlack is how far two nodes may differ in their estimates of the store's clock. A request may arrive
// this much later: otherwise a request with little time left would be refused by a node whose clock is ahead.
const clockSlack = time.Second
