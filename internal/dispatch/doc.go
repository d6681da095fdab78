// Package dispatch brings attempts from the partitions of a node to whoever does them, and no faster than they allow.
//
// The [Hub] stands between the two. On one side is the engine, which takes slots and hands over deliveries; on the other
// are consumers, which grant credits and report results. The hub knows no transport: worker sessions ([Options.Accept],
// internal/dispatch/worker), streams of Dapr's sidecars (internal/dispatch/sidecar) and hosts of HTTP targets
// ([Options.Transports], internal/dispatch/httptarget) stand above it.
//
//	engine                         hub, per queue                   consumer
//	  Take(p, q, want, head) ────►   credits − taken − reserved ◄──── Subscription.Grant
//	  Room(p, q) ◄────────────────   waiting partitions, best head first
//	  Return(p, q, n) ───────────►   slots not needed after all
//	  Deliver(attempts) ──────────►  subscriptions with room, in turn  ─────► Consumer.Deliver
//	  Reports, Heartbeats, Lost ◄──────────────────────────────────────── Sink
//
// A credit is a consumer's word that it has room for one more attempt. A slot is a credit spoken for: taken by a partition
// that is about to deliver, or reserved for one that waited and has been told so. Slots never exceed credits, except that
// a consumer may leave while its credits are taken; a delivery that then finds no room is handed back by
// [Sink.Undelivered] and has cost no attempt.
//
// New credits go to the waiting partition with the best head, a chunk at a time, so that none takes all; having used its
// chunk it waits again with its next head. What a partition cannot use it gives back.
//
// Beside credits a queue may have gates ([Gate]): limits of what is in flight at once, of all of it or of what shares a key,
// for as long as a member wants them. What a key's gate stops keeps its credit and waits in the hub.
//
// Nothing here blocks. One lock guards the hub; it is held for arithmetic only and never while a consumer or the sink is
// called, and consumers hold none of theirs when they call the hub. (Order, where both are needed: the hub's, then a
// consumer's; only [Subscription.Hold] needs both.)
package dispatch
