// Package kubens removes Dapr's jobs of namespaces that Kubernetes no longer has (docs/decisions/0065).
//
//	connect.go   where the API server is
//	client.go    what it is asked, and how it answers
//	watcher.go   which namespaces there are, and what follows from it
//	gone.go      whether a namespace is really gone
//	deletions.go what it has told to be deleted
//	known.go     which namespaces there were, over restarts
//	turn.go      which node begins
//	warnings.go  how often it is said that something is wrong
package kubens
