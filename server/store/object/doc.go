// Package object keeps a store in a bucket of an object storage, and needs nothing else: no server, no disk.
// It uses two conditions of the bucket: to create an object if there is none, and to replace one if it has
// not changed. Package s3 opens such stores.
//
//	PREFIX/root                    the members, the owners, and where what a partition holds is written
//	PREFIX/logs/LOG/NUMBER         a segment: the batches, of all its partitions, that a process wrote at once
//	PREFIX/snapshots/PPPPP/ID/N    what a partition held at some time
//
// Each process has a log of its own, whose segments it numbers without gaps. A segment is created if there is
// none of its number. Who takes a partition from a process first seals the log of that process, by creating
// its next segment as a seal. Then the process can write no more to it, and everything that it has written is
// known. What it still owns goes on in another log.
//
//	root: partition 7 = snapshot S, then log A from 12 to 40, then log B from 1
//
//	log A   … 11  12 ─ 13 ─ … ─ 39  40=seal
//	log B                            1 ─ 2 ─ 3 ─ …
//
// So a batch is fenced by the name of its segment at the moment of its write, and an answer that was lost can
// always be settled by a look at that very object.
//
// What a partition holds is in memory: its owner's follows its own batches, another process's reads on.
//
//	root.go      the object root, as a value          segment.go   segments and seals, as bytes
//	roots.go     how it is read and changed           batch.go     batches, as bytes
//	journal.go   this process's log                   logs.go      the logs of others, read and sealed
//	replica.go   what a partition holds               snapshot.go  and how that is kept apart from the logs
//	commit.go    how a batch is applied               keeper.go    snapshots when it is time, and garbage
//	shard.go     the store's partitions               leaser.go    members and owners
package object
