// Package payload keeps large payloads outside the store of the scheduler: in a folder, a bucket or tables of
// a database (docs/decisions/0084). A job then refers to its payload by day, SHA-256 and size
// ([carillon.PayloadRef]).
//
// An object is named PREFIX/payloads/DAY/NAMESPACE/SHA256. It is durable before a job refers to it, and is
// never changed. A new reference is only made to an object of the current or the previous day; so an object
// that is older, and that nothing refers to, will never be referred to again, and is removed.
//
//	store.go     puts and gets of payloads
//	edge.go      jobs whose data is large, or that come with a reference
//	verify.go    a reader that gives nothing away but what was stored
//	patience.go  for how long an answer of the store is waited for, and when to ask again
//	collector.go what nothing refers to is removed
//	references.go what the records of a partition refer to
//	folder.go    objects in a folder
//	content.go   what a caller reads
//	sealed.go    objects that are encrypted
//	objects.go   objects in a bucket, or in tables that are as one
package payload
