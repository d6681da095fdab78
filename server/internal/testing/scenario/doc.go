// Package scenario holds the acceptance scenarios S01 to S20 and the cases that the schedulers before this
// one test, as tests of a whole node: engine, dispatcher and workers' sessions over a store that outlives it,
// in a bubble where time costs nothing. docs/upstream.md says which upstream case is which test.
//
// Those that are about several nodes run for real: processes on a real store, which are killed, halted and
// cut off (package chaos). -divide divides their spans, and with them the number of jobs that fill a span or
// take as long to put (S04, S05, S07, S17); 1 = as the scenarios are written. -stores names the stores.
//
//	city_test.go       several real nodes, their workers, and what those saw
//	rig_test.go        the node, which can be killed, and its workers
//	s*_test.go         the scenarios, by number
//	orleans_test.go    what Orleans' durable jobs test
//	etcdcron_test.go   what go-etcd-cron tests
//	dapr_test.go       what Dapr's scheduler tests
package scenario
