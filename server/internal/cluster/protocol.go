package cluster

import (
	"fmt"
	"strconv"

	"github.com/carillonhq/carillon/server/store"
)

// protocol is the version of what nodes ask of each other and say of themselves. It changes when nodes of the
// previous version could not go on, which includes a new field in requests that existed before, since a node
// that does not know the field refuses them all. A field that only a new feature sets does not change it.
// Nodes of different formats never meet (store.Format), so this counts within one format. A test that joins
// builds of different versions sets it with the linker, -ldflags "-X
// github.com/carillonhq/carillon/server/internal/cluster.protocol=2".
var protocol = "1"

// protocolVersion returns the protocol version as a number.
func protocolVersion() int {
	n, err := strconv.Atoi(protocol)
	if err != nil || n < 1 {
		panic("cluster: protocol: " + strconv.Quote(protocol))
	}
	return n
}

// checkProtocol refuses a node whose protocol version differs from that of a living member. A member that
// states none is of a version before protocols had numbers, and speaks the first.
func checkProtocol(me string, members []store.Member) error {
	for i := range members {
		m := &members[i]
		if says := max(1, conditionOf(m).Speaks); m.ID != me && says != protocolVersion() {
			return fmt.Errorf("node %q at %s, which lives, speaks version %d of the protocol between nodes, and this one version %d: "+
				"end all nodes of the other version first", m.ID, m.Address, says, protocolVersion())
		}
	}
	return nil
}
