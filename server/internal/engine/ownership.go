package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// ownership is who owns one partition, as far as this node knows. Only the lane's goroutine moves it from one
// state to the next (Start does before the lanes run); other goroutines read the state and set wanted.
//
//	unowned   no term here; another node owns the partition, or may own it
//	claiming  the claimer gets a term and loads a machine; mail waits in the mailbox
//	owned     rounds run and calls are answered
//	leaving   nothing is handed out, calls are refused, the last batches become durable
//	lost      no term here, and no other node is known to have one: the term failed, or loading it did
//
//	           claim               begin               leave
//	unowned -----------> claiming ----------> owned --------------> leaving
//	  ^  ^                |    |               | |                    | |
//	  |  +----------------+    | damaged       | | lose               | | lose
//	  |      contested         v               | |                    | |
//	  |                       lost <-----------|-+--------------------|-+
//	  |                                        |                      |
//	  +----------------------------------------+----------------------+
//	                                    lose, elsewhere     lose, elsewhere; left
//
// claim also leads from lost to claiming, and claimFailed back to where the claim began.
//
// Everything starts with wanted, which Assign sets: the lane claims a partition that is wanted and has no
// term here (reclaim in claims.go), and a round hands over one that is owned and not wanted (leave in
// term.go). A hand-over that has begun is not called off: a partition that is wanted again is claimed again
// after it.
//
// When a node loses its lease: the renewal fails or names the term as over (renew in lease.go), and the next
// round of the partition gives the term up (checkLease). So do a batch that fails (settled in commit.go) and
// a group put that cannot be completed (giveUp in groupput.go). What memory holds may then be ahead of the
// store, so it is thrown away, and every caller who waits is answered (lose in term.go). A term that the
// store may still believe in is kept in unreleased: a new claim here replaces it, and it is released when
// this node is not to own the partition any more. Attempts that consumers of this node still run go on
// (orphans.go): what they report goes to the next owner (relay.go).
type ownership struct {
	current atomic.Int32 // an ownershipState
	wanted  atomic.Bool  // this node is to own the partition

	// Of the lane's goroutine alone.
	from       ownershipState  // of claiming: the state before
	term       store.Term      // the newest term here; it stays after its end
	cause      error           // why there is no term
	retryAt    int64           // when it may be claimed again, by Engine.elapsed
	lostAt     time.Time       // when a term was last lost; zero if never
	handOverAt int64           // when the hand-over began, by Engine.elapsed
	unreleased *pendingRelease // the newest term, if the store may not know that it is over

	claimedInVain bool // since term ended this process has claimed it without getting so far as to begin
}

// ownershipState is one of the states of ownership.
type ownershipState int32

const (
	unowned ownershipState = iota
	claiming
	owned
	leaving
	lost
)

func (s ownershipState) String() string {
	return [...]string{"unowned", "claiming", "owned", "leaving", "lost"}[s]
}

// move makes a transition from one of some states. From another it is a fault of this program: two owners
// could be the result, so it does not go on.
func (o *ownership) move(to ownershipState, from ...ownershipState) {
	in := o.state()
	if !slices.Contains(from, in) {
		panic(fmt.Sprintf("engine: ownership of a partition: %v after %v", to, in))
	}
	o.current.Store(int32(to))
}

// state returns the state now.
func (o *ownership) state() ownershipState { return ownershipState(o.current.Load()) }

// is reports whether the state is s.
func (o *ownership) is(s ownershipState) bool { return o.state() == s }

// holds reports whether there is a term with a machine: the partition is owned or leaving.
func (o *ownership) holds() bool { s := o.state(); return s == owned || s == leaving }

// elsewhere reports whether another node owns the partition or is to own it.
func (o *ownership) elsewhere() bool {
	s := o.state()
	return s == unowned || s == claiming && o.from == unowned || !o.wanted.Load()
}

// claim begins a claim. The next one may not begin before retryAt.
func (o *ownership) claim(retryAt int64) {
	from := o.state()
	o.move(claiming, unowned, lost)
	o.from, o.retryAt = from, retryAt
}

// contested ends a claim: another node holds the partition. It is claimed again at retryAt.
func (o *ownership) contested(cause error, retryAt int64) {
	o.move(unowned, claiming)
	o.cause, o.retryAt, o.unreleased, o.claimedInVain = cause, retryAt, nil, false
}

// claimFailed ends a claim that may have succeeded in the store all the same.
func (o *ownership) claimFailed(cause error, over pendingRelease) {
	o.move(o.from, claiming)
	o.cause, o.unreleased, o.claimedInVain = cause, &over, true
}

// damaged ends a claim: what the partition needs is damaged. Another node may be able to load it.
func (o *ownership) damaged(cause error, over pendingRelease, retryAt int64) {
	o.move(lost, claiming)
	o.cause, o.unreleased, o.retryAt, o.claimedInVain = cause, &over, retryAt, true
}

// begin ends a claim: the partition is owned.
func (o *ownership) begin(term store.Term) {
	o.term, o.unreleased, o.claimedInVain = term, nil, false
	o.move(owned, claiming)
}

// leave begins to hand the partition over.
func (o *ownership) leave(now int64) {
	o.move(leaving, owned)
	o.handOverAt = now
}

// left ends the hand-over.
func (o *ownership) left() {
	o.move(unowned, leaving)
	o.cause = message.ErrNotOwner
}

// lose ends the term without a hand-over. elsewhere says that another node may own the partition now. over is
// to be released, unless the store has ended the term itself.
func (o *ownership) lose(cause error, elsewhere bool, over *pendingRelease) {
	to := lost
	if elsewhere {
		to = unowned
	}
	o.move(to, owned, leaving)
	o.cause, o.lostAt = cause, time.Now()
	if over != nil {
		o.unreleased = over
	}
}

// refusal returns the error for calls that are refused now.
func (o *ownership) refusal(number int) error {
	switch {
	case o.elsewhere() || o.is(leaving):
		return notOwner(number)
	case errors.Is(o.cause, store.ErrDamaged):
		return dataLoss(o.cause)
	}
	return unavailable(o.cause)
}
