// Package keyset has the keys that encrypt a store: a Tink keyset in JSON, as `carillon encryption-key` and
// Tink's own tinkey make it, in the clear or encrypted by a key of a KMS. Package sealed says what is
// encrypted with them.
//
//	set.go    Set: the keys in force
//	stream.go streams that are encrypted
//	file.go   the file, and what is refused in it
//	kms.go    the key that the file is encrypted with
//	make.go   new files, new keys, another primary key
package keyset
