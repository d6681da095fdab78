// Package nodetls is TLS of a node: what it shows, which clients it lets in, and how nodes know each other.
//
//	source.go    what listeners and connections use, whatever the certificates come from
//	files.go     certificates from files, read again when they change
//	material.go  what the files hold at a moment
//	workload.go  identities of the SPIFFE Workload API
//	nodes.go     connections to other nodes, and who is one
package nodetls
