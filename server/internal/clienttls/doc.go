// Package clienttls is TLS of the clients of a node: how they verify the node, and what they show to it.
//
//	options.go   the files and the name, and what a connection is made with
//	whole.go     PEM of which nothing is missing
//	name.go      whom a certificate must name
//	spiffe.go    a node that is known by a SPIFFE id
//	probe.go     why a connection does not come about
package clienttls
