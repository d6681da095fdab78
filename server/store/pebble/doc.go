// Package pebble keeps a store in a folder of this machine: the default engine of a single node, on
// cockroachdb/pebble.
//
// # How a batch becomes durable
//
//	Submit ───► queue ──build, merge──► Pebble ──fsync──► outcome
//	(caller)    committer, one goroutine         syncer, one goroutine
//
// The committer takes the waiting requests of all partitions. It compares the terms of each with those in
// force, reads the records that its batches replace, finds their index entries and turns all of it into
// Pebble operations. What waits goes into one write, which it hands to Pebble without waiting for the disk,
// so that it makes the next one during the fsync. The syncer waits for the fsync and reports the outcomes.
// Claims go through the same queue, so that fencing and writing are one step. A group of batches is one
// request and is written as a whole. Apply is a group of one whose caller waits for the outcome.
//
// # How a record is kept
//
// A record's body (state, and a spec of up to [Options.InlineSpec] bytes) is the value of its due index
// entry, so that a scan of the due index reads nothing else. The head, under the record's name, tells where
// the body is and which other index entries exist; it is all that a later write must read. Heads that were
// just read or written are cached, so that most writes read nothing (headcache.go, historyfilter.go). Lists
// that a store of an older format lacks are made when it is opened (extend.go).
// docs/decisions/0004-pebble-keys.md has the measurements.
//
// # What a start checks
//
// The guard between Pebble and the file system (below) reports every fsync of a log or a manifest to the
// recovery point. The recovery point, a file of three slots, says what must be there, and Open compares
// (verify.go). Close flushes, so that logs hold nothing. Tables have checksums: when a block cannot be read,
// its table is examined once, the lost key range is kept in memory, and reads go around it (losses.go).
// docs/decisions/0037-what-a-start-must-find.md has the reasons.
//
// # When the disk fails
//
// Pebble ends the process on a failed write. The guard prevents that: it records the first failure and from
// then on lets nothing reach the disk, so the folder stays as it was. The store answers ErrUnknown to what
// was under way, closes Pebble, opens it again for reading only, and returns the reason to writers. From then
// on it tries by itself, every [Options.RetryAfter], whether the disk takes writes again: the node goes on
// without a restart, and without a caller.
package pebble
