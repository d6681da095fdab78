package peer

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/cluster"
)

// understand refuses a request in which, at any depth, a field is set that this version does not know:
// otherwise what it asks for would be dropped silently. In answers unknown fields are ignored.
func understand(m proto.Message) error {
	if s := wire.StrayIn(m); s != nil {
		return older(fmt.Sprintf("field %d of %s", s.Number, s.In))
	}
	return nil
}

// older returns the error for something that this version does not know.
func older(what string) error {
	return carillon.Errorf(carillon.Unavailable, "",
		"%w: it does not know %s; end the upgrade, and try again", cluster.ErrOlder, what)
}
