// Package etcdembed keeps a store in an etcd whose members are in the processes of the nodes: three nodes are
// a cluster that needs no other server and survives the loss of any one. The store itself is that of package
// etcd; each node uses all members.
//
//	options.go  Options, and how they are read from a URL
//	member.go   the member in this process: new, or joining a cluster that is there; learners are promoted
//	store.go    Store: opening it when most members are there
//	log.go      what etcd logs
package etcdembed
