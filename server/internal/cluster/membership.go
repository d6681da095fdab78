package cluster

import "sync"

// memberState is how far this process has come as a member of its cluster.
//
//	joining ──joined──→ member ←──drain, restore──→ drained
//	                      │                            │
//	                      └───────────leave────────────┘
//	                                    ↓
//	                                 leaving ──finish──→ ending
//
//	member, drained, leaving, ending ──taken──→ replaced
//	every state                      ──close──→ closed
//
// Whether a member is able to own partitions is another matter: see [fitness] and [storeClock]. [Node.self]
// makes one [phase] of all of these for the other nodes.
type memberState uint8

const (
	stateJoining  memberState = iota // it has not written a heartbeat yet
	stateMember                      // it is to own its share
	stateDrained                     // an operator wants it to own nothing
	stateLeaving                     // it was told to end: it keeps only what no other node could own
	stateEnding                      // it takes nothing any more
	stateReplaced                    // another process has its name: it owns nothing and should end
	stateClosed                      // its membership is over
)

// memberEvent is what moves a process from one state to another.
type memberEvent uint8

const (
	eventJoined  memberEvent = iota // the store has taken a heartbeat
	eventDrain                      // the store has noted that the node is to own nothing
	eventRestore                    // the node is to own its share again
	eventLeave                      // the process was told to end
	eventFinish                     // the attempts of its consumers have ended
	eventTaken                      // the store has the name under another nonce
	eventClose                      // the node is closed
)

// after returns the state that follows from an event. Many events change nothing: operators, the store and
// the process itself act independently. Nothing leads back from leaving on.
func (s memberState) after(e memberEvent) memberState {
	switch {
	case e == eventClose || s == stateClosed:
		return stateClosed
	case s == stateReplaced:
		return stateReplaced
	case e == eventTaken && s != stateJoining: // who is joining is refused, and has nothing to lose
		return stateReplaced
	case s == stateJoining && e == eventJoined, s == stateDrained && e == eventRestore:
		return stateMember
	case s == stateMember && e == eventDrain:
		return stateDrained
	case e == eventLeave && s != stateEnding:
		return stateLeaving
	case e == eventFinish:
		return stateEnding
	}
	return s
}

// departs reports whether the process leaves its cluster, or has left it, by itself.
func (s memberState) departs() bool { return s == stateLeaving || s == stateEnding || s == stateClosed }

// over reports whether the process may own nothing any more, whoever the other members are.
func (s memberState) over() bool { return s == stateReplaced || s == stateClosed }

// membership is the state of this process. Its methods may be called at any time.
type membership struct {
	mu       sync.Mutex
	current  memberState
	replaced chan struct{} // closed when it is replaced
	closed   chan struct{} // closed when it is closed
}

func newMembership() *membership {
	return &membership{replaced: make(chan struct{}), closed: make(chan struct{})}
}

// state returns the current state.
func (m *membership) state() memberState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current
}

// apply makes the transition of an event. It reports whether that has changed the state.
func (m *membership) apply(e memberEvent) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.current.after(e)
	if next == m.current {
		return false
	}
	m.current = next
	switch next {
	case stateReplaced:
		close(m.replaced)
	case stateClosed:
		close(m.closed)
	}
	return true
}
