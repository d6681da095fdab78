// Package rates measures how fast a whole node gets runs to a message broker, beside the client library of
// the broker alone: messages of the same size, with as many unacknowledged at a time, in the same minutes.
// The broker is a real one, which the test starts; so is the node, a process of its own. TestRates does
// nothing unless -rounds says how often; docs/performance.md has the command and its table.
//
//	rates_test.go     the rounds, and their medians as a table
//	brokers_test.go   the four brokers
//	bare_test.go      what their libraries do alone
package rates
