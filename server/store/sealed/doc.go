// Package sealed encrypts what goes into a store and decrypts what comes out of it, between the engine and
// every kind of store. Package codec says what a record looks like then (sealed.go), and package keyset of
// server/internal has the keys.
//
//	box.go    Box: batches on their way in
//	shard.go  Shard: reads on their way out
//	marks.go  which keys a partition needs
//	move.go   everything encrypted again, on its way to another store
package sealed
