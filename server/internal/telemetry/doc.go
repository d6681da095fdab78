// Package telemetry turns what the engine and the hub tell into metrics and logs.
//
//	table.go     every metric with its meaning: the only place where they are named
//	metrics.go   events → counters and histograms
//	collect.go   figures read when somebody asks
//	log.go       the logger of a process
//
// Each [Metrics] has a registry of its own, so several nodes can live in one process.
package telemetry
