// Package audit has what is recorded of a call while it is under way, and examines the chains of what was
// recorded.
//
//	call.go    a call on its way to the partition that changes something, also over nodes
//	log.go     an entry as a line of a log
//	verify.go  what is wrong with a chain
//	examine.go reads the chains of a partition
package audit
