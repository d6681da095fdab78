// Package outbox does the commands that programs leave in their own PostgreSQL database, in the transactions
// in which they store their rows (docs/outbox.md, docs/decisions/0090).
//
//	schema.sql   the tables and functions of the application's database
//	script.go    the script that makes them
//	install.go   applies it
//	connect.go   how a node connects
//	reader.go    one outbox: who reads it, and when
//	pass.go      what is under way: rows to commands, outcomes to rows
//	watch.go     how it learns of commits
//	rows.go      the statements
//	forget.go    what Carillon need not remember any more
//	rejects.go   what was refused
//
// A row goes through these states. It is deleted once what it asks for is durable in Carillon, and Carillon
// remembers it until nobody can ask again:
//
//	transaction commits → waits → under way → done      → forgotten → no trace
//	                       ↑          │     ↘ rejected, kept for people
//	                       └ tried ───┘
//	                         again
//
// Whatever ends in between, the row is there still and is done again, which changes nothing: the partition of
// its job finds that it has done it ([message.Command]).
package outbox
