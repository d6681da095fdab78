package multisession

import (
	"time"

	"github.com/carillonhq/carillon"
)

// suspectAfter is how long a node may leave reports, and then a ping, without a reply. The shortest lease
// still leaves twice as long for a lost heartbeat.
const suspectAfter = 500 * time.Millisecond

// replyState is what a session knows of a node that it has sent reports to.
//
//	         sent              500 ms, or a heartbeat sent          500 ms
//	replied  ────→ unanswered ─────────────────────────────→ pinged ──────→ suspect
//	    ↑              │ any message                           │ Withdrawn     │
//	    └──────────────┴───────────────────────────────────────┴───────────────┘
type replyState uint8

const (
	replied    replyState = iota
	unanswered            // it was sent reports, and nothing has come from it since
	pinged                // it was asked for an answer, and only that counts
	suspect               // its reports go to a second node, too
)

// reply is what a node has been sent since it last answered.
type reply struct {
	state      replyState
	since      time.Time                     // when it became unanswered, or was pinged
	heartbeats map[string]carillon.Heartbeat // by token
}

// sent records that the node was sent reports.
func (r *reply) sent(now time.Time) {
	if r.state == replied {
		r.state, r.since = unanswered, now
	}
}

// ping reports whether the node is to be pinged, and records that it is.
func (r *reply) ping(now time.Time) bool {
	if r.state != unanswered {
		return false
	}
	r.state, r.since = pinged, now
	return true
}

// suspect records that the node has not answered a ping.
func (r *reply) suspect() {
	if r.state == pinged {
		r.state = suspect
	}
}

// received records a message from the node. It answers a ping if something was withdrawn.
func (r *reply) received(withdrawn bool) {
	if r.state >= pinged && !withdrawn {
		return
	}
	r.state = replied
	clear(r.heartbeats)
}

// add keeps heartbeats of attempts, for a second node.
func (r *reply) add(req *carillon.WorkRequest) {
	for _, b := range req.Heartbeats {
		r.heartbeats[b.Token] = b
	}
	for i := range req.Results {
		if req.Results[i].Outcome != carillon.OutcomeProgress {
			delete(r.heartbeats, req.Results[i].Token) // stale after the result
		}
	}
}

// left returns how long the node may still leave its reports, or a ping, without a reply. waits is false if
// it owes none, or is suspect already.
func (r *reply) left(now time.Time) (left time.Duration, waits bool) {
	return suspectAfter - now.Sub(r.since), r.state == unanswered || r.state == pinged
}
