// Package plan computes what follows from a job before it runs: when it runs first, how often at most,
// whether its retries fit into its interval, and which of its fields change its times. It is pure.
package plan
