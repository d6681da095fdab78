// Package quota decides how much of a namespace's quotas each partition may use, and how often jobs may be
// changed. It has no I/O; package engine carries its messages, and package partition counts (usage.go).
//
//	ledger.go  what partitions may have, of quotas of jobs and bytes
//	changes.go how many changes may be made, of a rate
//
// # Jobs and bytes
//
// The home of a namespace's quotas is the partition that keeps its settings. It gives room to the partitions,
// and notes for each the most that it may have. The sum of these bounds never grows beyond the quota; so the
// jobs, which are never more than the bounds, do not either. A partition counts its jobs, and puts no job for
// which it has no room.
//
//	partition                           home
//	   put, no room ── AskRoom: has, wants ──►  bound = has + room given
//	   ◄── Room ───────────────────────────┘
//	   ◄── CountUsage ─────────────────────── the quota is used up: who has room to spare?
//	   all room is given up ── Usage ───────►  bound = has
//
// Nothing of this is stored. A new owner of a partition has no room and counts its jobs; until then its bound
// stays as it was. A new owner of the home knows no bounds: it gives nothing until all partitions have
// counted, and have given up what room they had.
//
// Messages may be lost, late, doubled or out of order, and may come from owners that have been replaced.
// Whatever the home sends has a stamp (epoch of its term, number), greater than all before; a partition takes
// nothing that is older than what it has taken. What a partition says is about what is durable, and lowers
// its bound only if it knows the newest stamp that it was sent: otherwise it may be about to use room that it
// does not know of.
//
// While there are no quotas, nobody counts. So when they are lifted, the home forgets the bounds, and
// partitions what they have. A partition that a home asks counts, though its node knows of no quotas: it may
// not have heard of them yet. If they are lifted, and the message is from before, it forgets what it has with
// the first put after 10 s. Until then it puts nothing without room, if the home has taken that back.
//
// # Changes
//
// The home has a bucket for the rate. Nodes take changes out of it, a few at a time, and use them within
// [Hold]. So in any time d there are at most burst + rate * (d + Hold) of them, and once more the burst
// after the home was taken over, which begins with a full bucket. A node that took a change for what then was
// not made uses it for another one within Hold.
package quota
