// Package follow lets another process copy what a node's partitions hold while the node serves them.
//
//	lanes of the engine ── Tap ──> store
//	                        │ changes            ┌─ contents, by pages
//	                        └──> Session ────────┴──> Follow (gRPC) ──> Client: carillon backup, carillon migrate
//
// A copy is made of pages that are read while the partition changes, and of all changes from before the first
// page on, in an order that makes them one:
//
//	changes 1…x sent ─> a page is read, and sent ─> changes x+1… sent ─> the next page …
//
// So a record that a page shows as of change y is overwritten by the changes x+1…y once more, and is right
// when they have all come. Each change says the whole of what it writes, with two exceptions. A put of a
// state alone is left out by the receiver if it has no such record yet. Trims and expiries of the history,
// whose effect depends on what is there, are left out of the batches of a partition that is copied.
//
// Records of several partitions belong together, and partitions have several nodes. So the copy ends with a
// moment in which nothing becomes durable anywhere: all nodes hold, then each makes sure that it has owned
// its partitions all the time. Whoever claims one of them later finds nothing that is not in the copy.
package follow
