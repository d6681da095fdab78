package cluster

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/store"
)

// TestProtocolOfMembers: a member of another version is named, one that states none speaks the first, and
// this node's own old member does not count.
func TestProtocolOfMembers(t *testing.T) {
	other := (&condition{Phase: phaseFit, Speaks: protocolVersion() + 1}).text()
	for _, x := range []struct {
		member store.Member
		fault  string
	}{
		{store.Member{ID: "b"}, ""},
		{store.Member{ID: "b", State: (&condition{Speaks: protocolVersion()}).text()}, ""},
		{store.Member{ID: "a", State: other}, ""},
		{store.Member{ID: "b", Address: "there", State: other}, `node "b" at there, which lives, speaks version 2`},
	} {
		err := checkProtocol("a", []store.Member{x.member})
		if (err == nil) != (x.fault == "") || err != nil && !strings.Contains(err.Error(), x.fault) {
			t.Errorf("%+v: %v", x.member, err)
		}
	}
}
