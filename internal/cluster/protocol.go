package cluster

import (
	"fmt"
	"strconv"

	"github.com/carillonhq/carillon/store"
)

// protocol is the version of what nodes ask of each other and say of themselves. It changes when nodes of the version before could not
// go on: also with a new field that requests carry which were there before, since who does not know it refuses them all. A field that
// only a new feature sets does not change it. Nodes of different formats never meet (store.Format), so this counts within one. A test
// that joins builds of different versions sets it by the linker, -ldflags "-X github.com/carillonhq/carillon/internal/cluster.protocol=2".
var protocol = "1"

// speaks is the protocol as a number.
func speaks() int {
	n, err := strconv.Atoi(protocol)
	if err != nil || n < 1 {
		panic("cluster: protocol: " + strconv.Quote(protocol))
	}
	return n
}

// intelligible refuses a node that does not speak as a member that lives does. One that says nothing is of a version before protocols
// had numbers, and speaks the first.
func intelligible(me string, members []store.Member) error {
	for i := range members {
		m := &members[i]
		if says := max(1, conditionOf(m).Speaks); m.ID != me && says != speaks() {
			return fmt.Errorf("node %q at %s, which lives, speaks version %d of the protocol between nodes, and this one version %d: "+
				"end all nodes of the other version first", m.ID, m.Address, says, speaks())
		}
	}
	return nil
}
