// Package server builds a node out of its parts and owns their lifetimes.
//
//	config.go     the configuration of a node, and what is wrong with it
//	node.go       store, engine, hub and metrics: a node without listeners, as package embedded runs it
//	events.go     what the parts of a node tell its metrics
//	trouble.go    what is wrong with the store at present
//	advertise.go  the addresses at which others reach a node
//	credentials.go  how nodes of a store know each other
//	cluster.go    what makes a node part of a cluster
//	shared.go     the settings that should be the same on all nodes of a cluster
//	nodes.go      what workers are told of the other nodes; relay.go serves those that reach one node only
//	alone.go      the cluster of a node that is alone
//	server.go     a node with its listeners: listeners.go, api.go, sidecars.go and, for profiles, debug.go
//	waiting.go    what the listeners answer while a node waits for its store
//	unused.go     the connections of a listener over which nothing has come
//
// Everything is ended by what started it. A node leaves in this order: it reports that it is not ready; it
// dispatches nothing new and tells workers to connect elsewhere; attempts in force go on within
// [Config.DrainGrace], while calls and results are still accepted; the engine makes durable what is on its
// way; sessions and listeners close; the store closes last.
package server
