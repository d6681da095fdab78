// Package pebble keeps a store in a folder of this machine: the default engine of a single node, on cockroachdb/pebble.
//
// # How a batch becomes durable
//
//	Apply ──build──► queue ──merge──► Pebble ──fsync──► reply
//	(caller)         committer, one goroutine  syncer, one goroutine
//
// The caller's goroutine turns its batch into Pebble operations: it reads the records that the batch replaces and finds
// their index entries. The committer compares the term with the one in force, merges what waits from all partitions into
// one write and hands it to Pebble without waiting for the disk, so that it merges the next one during the fsync. The
// syncer waits for the fsync and answers. Claims go through the same queue, which makes fence and write one step. A group of
// batches is one request: built by its caller one after the other, and written whole.
//
// # How a record is kept
//
// A record's body (state, and a spec of up to [Options.InlineSpec] bytes) is the value of its due index entry, so that a
// scan of what is due reads nothing else. The head, under the record's name, says where the body is and which other index
// entries exist; it is all that a later write must read. What was just read or written is remembered, so that most writes
// read nothing (headcache.go, historyfilter.go). docs/decisions/0004-pebble-keys.md has the measurements.
//
// # What a start believes
//
// The guard that stands between Pebble and the file system (below) tells the recovery point of every fsync of a log or a
// manifest. The recovery point, a file of three slots, says what must be there; Open compares (verify.go). Close flushes, so that
// logs hold nothing. Tables have checksums: when a block cannot be read, its table is looked through once, the keys that are
// lost are kept in memory, and reads go round them (losses.go). docs/decisions/0037-what-a-start-must-find.md has the reasons.
//
// # When the disk fails
//
// Pebble ends the process on a failed write. Between it and the file system stands a guard that reports the first failure
// and from then on lets nothing reach the disk, so the folder stays as it was. The store answers ErrUnknown to what was
// under way, closes Pebble, opens it again for reading only, and says why it cannot write. From then on it tries by itself,
// every [Options.RetryAfter], whether the disk takes writes again: the node goes on without a restart, and without a caller.
package pebble
