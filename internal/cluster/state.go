package cluster

import (
	"encoding/json"
	"fmt"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// phase is where a node stands. Its text is what others read, be they of another version.
type phase string

// The phases. Only a fit node has a capacity above 0.
const (
	phaseFit     phase = "fit"     // it has proven that it can claim and commit
	phaseProving phase = "proving" // it is new, and has not proven it yet
	phaseUnfit   phase = "unfit"   // it lives, and fails to claim or to commit
	phaseDrained phase = "drained"
	phaseSkewed  phase = "clock"   // its clock is off
	phaseLeaving phase = "leaving" // it has been told to end: it keeps what nobody stays to take
	phaseEnded   phase = "ended"   // it leaves, and takes nothing any more
)

// condition is what a node says of itself to the others, with each heartbeat.
type condition struct {
	Phase   phase            `json:"phase"`             // empty of a node of a version that says nothing
	Speaks  int              `json:"speaks,omitempty"`  // version of the protocol between nodes
	Reason  string           `json:"reason,omitempty"`  // why it is unfit, or what it refuses; for people
	Refuses []int            `json:"refuses,omitempty"` // partitions that it could not serve, and is not to own for now
	Doubts  map[string][]int `json:"doubts,omitempty"`  // by member: partitions that this one should own and does not take
}

// text is the condition as a member carries it.
func (c *condition) text() string {
	b, err := json.Marshal(c)
	if err != nil {
		return "" // nothing in it can fail
	}
	return string(b)
}

// conditionOf is what a member says of itself. What cannot be read is of a version to come, and says nothing.
func conditionOf(m *store.Member) (c condition) {
	if json.Unmarshal([]byte(m.State), &c) != nil {
		return condition{}
	}
	return c
}

// self is the node as the others are to know it now.
func (n *Node) self() store.Member {
	m, c := n.cfg.Member, condition{Speaks: speaks()}
	m.Capacity = 0
	switch is, reason, refuses := n.fit.stands(); {
	case n.exit.ended.Load():
		c.Phase = phaseEnded
	case n.exit.leaving.Load():
		c.Phase = phaseLeaving
	case n.draining.Load():
		c.Phase = phaseDrained
	case n.skew.Load().off:
		c.Phase = phaseSkewed
	case !is && reason == "":
		c.Phase = phaseProving
	case !is:
		c.Phase, c.Reason = phaseUnfit, reason
	default:
		m.Capacity = 1
		c.Phase, c.Reason, c.Refuses, c.Doubts = phaseFit, reason, refuses, n.suspicions.published()
	}
	m.State = c.text()
	return m
}

// states are the phases as callers know them.
var states = map[phase]carillon.NodeState{
	phaseFit: carillon.NodeFit, phaseProving: carillon.NodeProving, phaseUnfit: carillon.NodeUnfit, phaseDrained: carillon.NodeDrained,
	phaseSkewed: carillon.NodeSkewed, phaseLeaving: carillon.NodeLeaving, phaseEnded: carillon.NodeLeaving,
}

// nodes are the living nodes; their clocks are not known here.
func (v *view) nodes() []carillon.Node {
	doubted := v.suspected()
	nodes := make([]carillon.Node, len(v.members))
	for i := range v.members {
		m := &v.members[i]
		c := conditionOf(m)
		nodes[i] = carillon.Node{ID: m.ID, Address: m.Address, HTTP: m.HTTP, Sidecars: m.Sidecars, Draining: m.Capacity == 0,
			Owns: v.owned(m.ID, c.Refuses), State: states[c.Phase], Reason: c.Reason}
		if parts := doubted[m.ID]; len(parts) > 0 && m.Capacity > 0 {
			nodes[i].State, nodes[i].Reason = carillon.NodeUnfit, fmt.Sprintf("it lives and does not take %d partitions of its share, such as %d",
				len(parts), parts[0])
		}
	}
	return nodes
}
