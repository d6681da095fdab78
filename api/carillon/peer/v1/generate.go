// Package peerv1 is what the nodes of a cluster ask of each other, as gRPC sees it, and nothing else: every
// file besides this one is generated.
package peerv1

//go:generate env GOWORK=off go -C ../../../../tools tool buf generate --template buf.peer.gen.yaml
