// Package server makes a node out of its parts and owns their lives.
//
//	config.go   what a node is made with, and what is wrong with it
//	stores.go   which store a URL means
//	node.go     store, engine, hub and metrics: a node without listeners, as package embedded runs it
//	advertise.go where others reach a node
//	cluster.go  what makes a node part of a cluster
//	alone.go    the cluster of a node that is alone
//	server.go   a node with its gRPC and HTTP listeners
//	debug.go    its listener for profiles, if it is to have one
//
// Everything that is started is ended by who started it. A node leaves in this order: it says that it is not ready; nothing
// new is handed out and workers are told to go elsewhere; attempts in force go on within [Config.DrainGrace], while calls
// and results are still taken; the engine makes durable what is on its way; sessions and listeners close; the store, last.
package server
