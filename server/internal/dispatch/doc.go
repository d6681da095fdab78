// Package dispatch brings attempts from the partitions of a node to consumers, no faster than these allow.
//
// The [Hub] stands between the two. On one side is the engine, which asks for slots and hands over
// deliveries; on the other are consumers, which grant credits and report results. The hub knows no transport.
// Built on it are worker sessions ([Options.Accept], server/internal/dispatch/worker) and streams of Dapr's
// sidecars (server/internal/dispatch/sidecar), which share server/internal/dispatch/stream, and hosts of HTTP
// targets ([Options.Transports], server/internal/dispatch/httptarget).
//
//	engine                         hub, per queue                   consumer
//	  Offer(p, waiting) ─────────►   credits − taken  ◄──────────────────── Subscription.Grant
//	  Slots(p, q, n) ◄────────────   waiting partitions, best head first
//	  Deliver(p, attempts, rest) ─►  subscriptions with room, in turn  ───► Consumer.Deliver
//	  Reports, Heartbeats, Lost ◄────────────────────────────────────────── Sink
//
// A credit is a consumer's promise that it has room for one more attempt. A slot is a credit that a partition
// has: it may deliver one attempt. Slots never exceed credits, with one exception: a consumer may leave while
// its credits are taken. A delivery that then finds no room is handed back by [Sink.Undelivered] and uses no
// attempt.
//
// A round of a partition asks once, for all its queues, and delivers once (docs/decisions/0057). What is free
// is its own at once; for the rest it waits. New credits go to the waiting partition with the best head, a
// chunk at a time, so that none takes all, and travel with the message that tells it so. It asks again for
// more with its next head. With what it delivers it returns the slots that it cannot use.
//
// Limits of what may be in flight at once are not kept here, but by the permits that partitions take
// (server/internal/permit).
//
// Nothing here blocks. One lock guards the hub. It is held for arithmetic only and never while a consumer or
// the sink is called; consumers hold no lock of their own when they call the hub. (Where both locks are
// needed, the hub's comes first: by [Subscription.Hold] and [Registration.Silence].)
//
// # Files
//
//	hub.go                            options, start and stop
//	sink.go                           the seams: engine, consumers, workers, transports of targets, payloads
//	registration.go, subscription.go  who is connected, and its place at each queue
//	queue.go, waiting.go, offer.go    slots of one queue: the arithmetic, waiting partitions, what the engine calls
//	notifications.go                  what a step tells others once the lock is free
//	pause.go                          queues that hand out nothing
//	silence.go, absence.go            consumers that say nothing, queues that nobody serves
//	slow.go                           the bound after a start with a backlog
//	advice.go, stats.go               what puts are warned of, and figures
//	look.go                           who takes the runs of one queue
//	flights.go                        what a transport has in flight
//	awaited.go                        attempts that a consumer at a broker completes, and their bound
package dispatch
