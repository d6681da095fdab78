package multisession

// state is how far a worker's session has come. Only while it is serving do credits move and are nodes
// connected or suspected.
//
//	serving ──goodbye──→ leaving
//	serving, leaving ──shut──→ closing ──end──→ closed
//	serving, leaving ──end───→ over ────shut──→ closed
type state uint8

const (
	stateServing state = iota
	stateLeaving       // the worker takes no new runs; its results are sent on
	stateClosing       // the worker has closed the session; what the nodes have sent can still be received
	stateOver          // the session has ended with an error, which the worker gets
	stateClosed        // both
)

// event is what moves a session from one state to another.
type event uint8

const (
	eventGoodbye event = iota // the worker says goodbye
	eventEnd                  // no node can serve the session any more
	eventShut                 // the worker closes the session
)

// after returns the state that follows from an event. What the worker says when the session has ended changes
// nothing, and only the first end counts.
func (s state) after(e event) state {
	switch {
	case e == eventGoodbye && s == stateServing:
		return stateLeaving
	case e == eventShut && s <= stateLeaving:
		return stateClosing
	case e == eventEnd && s <= stateLeaving:
		return stateOver
	case e == eventEnd && s == stateClosing, e == eventShut && s == stateOver:
		return stateClosed
	}
	return s
}

// ended reports whether no node can serve the session any more.
func (s state) ended() bool { return s >= stateOver }

// shut reports whether the worker has closed the session.
func (s state) shut() bool { return s == stateClosing || s == stateClosed }
