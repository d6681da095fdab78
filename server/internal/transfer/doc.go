// Package transfer moves what a store holds into another store, or into a file and back.
//
// What moves is all of it, as it is: jobs, pending and finished runs, metadata records, the number of
// partitions, and the key that authenticates tokens. So run ids, page tokens and the tokens of attempts that
// workers have stay good. The terms go on above those of before, because records compare with them.
//
//	a store ─ freeze ─ each ─┬─ a store: marked, Apply, read back, mark removed
//	                         └─ a file: head, batches, digest
//	a file ─ openFile ─ each ┘
//
// A journal (journal.go) is written while nodes serve the store (live.go), or once (AddBase), to segments in
// a folder (folder.go) or a bucket (bucket.go, bucketobject.go).
//
// Nothing else may write meanwhile: a store is frozen by claims of all its partitions, for which its nodes
// must have been stopped. A store that is not whole yet has a mark, with which no node serves it; so has one
// whose contents have moved elsewhere.
package transfer
