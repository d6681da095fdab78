// Command peers measures Carillon beside other schedulers: the same work, on the same machine, in the same
// run.
//
// It starts every server itself, on free ports and in temporary folders, and ends them all. What is not
// installed is left out with a line that says so. Run it by `make bench-peers` in the root of the project.
//
//	main.go       flags, and one contestant after the other
//	contest.go    what a contestant must be able to do, and who they are
//	measure.go    the measures: put, bulk, now, herd, steady
//	goals.go      those over Dapr's protocol: P1, P3, P5, P7, P8; ticks.go: their recurring jobs
//	ledger.go     what should have run, and what did
//	report.go     a result, the table
//	server.go     a server process; proc.go: its CPU time
//	version.go    versions of modules
//	carillon.go (embedded, on PostgreSQL, on Redis), river.go (on postgres.go), asynq.go, dapr.go   one contestant each
//
// It is a module of its own so that nobody who uses Carillon depends on its peers. It needs Unix; CPU times
// need Linux.
package main
