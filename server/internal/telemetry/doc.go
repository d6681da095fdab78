// Package telemetry turns what the engine and the hub tell into metrics and logs.
//
//	table.go     every metric with its meaning: the only place where they are named
//	metrics.go   what the engine tells → counters and histograms; cluster.go: what the cluster tells
//	calls.go     calls of the APIs; ends.go: what became of runs, by queue; traces.go: spans, and exemplars
//	collect.go   figures read when somebody asks
//	log.go       the logger of a process
//
// Each [Metrics] has a registry of its own, so several nodes can live in one process.
package telemetry
