// Package etcdapi is the face that tools for Dapr's scheduler know: the calls of the etcd in which that
// scheduler keeps its jobs, over Carillon's. docs/dapr.md says what it promises.
//
//	which jobs may a range of keys name?     keyspace.go
//	what is stored under a key?              records.go (jobs and their counters), leadership.go
//	reading                                  range.go, watch.go
//	writing                                  put.go, delete.go, txn.go
//	what else tools ask an etcd for          lease.go, maintenance.go
//	who has changed what?                    record.go
//	which revision is it?                    clock.go
package etcdapi
