// Package engines measures nodes on each engine that can hold their store: puts, batches of puts, a herd
// that is due at one instant, and a steady load, with one node and with three. Beside them stands what the
// engine's own client does alone: as many commits, of as many records of the size of a job, by as many
// callers. The engines are real servers, which the test starts, with an fsync for each commit; so are the
// nodes, processes of their own. TestEngines does nothing unless -engines says which; docs/performance.md
// has the command and its table.
//
//	engines_test.go   what is measured, and its table
//	servers_test.go   the engines
//	bare_test.go      what their clients do alone
package engines
