package cluster

import (
	"encoding/json"
	"fmt"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// phase is what a node can do at present. The text is read by other nodes, also of other versions.
type phase string

// The phases. Only a fit node has a capacity above 0.
const (
	phaseFit     phase = "fit"     // it has proven that it can claim and commit
	phaseProving phase = "proving" // it is new, and has not proven it yet
	phaseUnfit   phase = "unfit"   // it lives, but fails to claim or to commit
	phaseDrained phase = "drained"
	phaseSkewed  phase = "clock"   // its clock is off
	phaseLeaving phase = "leaving" // it was told to end; it keeps what no other node can take
	phaseEnded   phase = "ended"   // it is leaving, and takes nothing any more
)

// condition is what a node says of itself to the others, with each heartbeat.
type condition struct {
	Phase  phase  `json:"phase"`            // empty if the node's version states none
	Speaks int    `json:"speaks,omitempty"` // version of the protocol between nodes
	Reason string `json:"reason,omitempty"` // why it is unfit, or what it refuses; for people
	// No other node may be a member beside it.
	Exclusive bool `json:"exclusive,omitempty"`
	// Partitions that it could not serve and is not to own for now.
	Refuses []int `json:"refuses,omitempty"`
	// By member: partitions that the member should own and does not take.
	Suspected map[string][]int `json:"doubts,omitempty"`
}

// text encodes the condition for the member.
func (c *condition) text() string {
	b, err := json.Marshal(c)
	if err != nil {
		return "" // cannot happen with these fields
	}
	return string(b)
}

// conditionOf returns what a member says of itself; nothing if it cannot be decoded, as it is of a later
// version.
func conditionOf(m *store.Member) (c condition) {
	if json.Unmarshal([]byte(m.State), &c) != nil {
		return condition{}
	}
	return c
}

// self returns this node's member as the others should see it now.
func (n *Node) self() store.Member {
	m, c := n.cfg.Member, condition{Speaks: protocolVersion(), Exclusive: n.cfg.Exclusive}
	m.Capacity = 0
	fit, reason, refuses := n.prover.fitness.report()
	switch at := n.membership.state(); {
	case at == stateLeaving:
		c.Phase = phaseLeaving
	case at.departs():
		c.Phase = phaseEnded
	case at == stateDrained:
		c.Phase = phaseDrained
	case n.storeClock.skew().off:
		c.Phase = phaseSkewed
	case !fit && reason == "":
		c.Phase = phaseProving
	case !fit:
		c.Phase, c.Reason = phaseUnfit, reason
	default:
		m.Capacity = 1
		c.Phase, c.Reason, c.Refuses, c.Suspected = phaseFit, reason, refuses, n.suspicions.published()
	}
	m.State = c.text()
	return m
}

// states maps phases to the states of the public API.
var states = map[phase]carillon.NodeState{
	phaseFit: carillon.NodeFit, phaseProving: carillon.NodeProving, phaseUnfit: carillon.NodeUnfit,
	phaseDrained: carillon.NodeDrained, phaseSkewed: carillon.NodeSkewed, phaseLeaving: carillon.NodeLeaving,
	phaseEnded: carillon.NodeLeaving,
}

// nodes returns the living nodes, without their clocks.
func (v *view) nodes() []carillon.Node {
	suspected := v.suspected()
	nodes := make([]carillon.Node, len(v.members))
	for i := range v.members {
		m := &v.members[i]
		c := conditionOf(m)
		nodes[i] = carillon.Node{ID: m.ID, Address: m.Address, HTTP: m.HTTP, Sidecars: m.Sidecars,
			Draining: m.Capacity == 0, Owns: v.owned(m.ID, c.Refuses), State: states[c.Phase], Reason: c.Reason}
		if c.Phase == phaseEnded {
			nodes[i].Sidecars = "" // it takes none any more
		}
		if parts := suspected[m.ID]; len(parts) > 0 && m.Capacity > 0 {
			nodes[i].State, nodes[i].Reason = carillon.NodeUnfit, fmt.Sprintf("it lives and does not take %d partitions of its share, such as %d",
				len(parts), parts[0])
		}
	}
	return nodes
}
