package contents

import (
	"fmt"

	"github.com/carillonhq/carillon/server/store"
)

// Room is that of [store.Roomer] for a store whose URL has the parameter records: how many jobs, pending and
// finished runs a node may have in memory. of is what the URL is of.
func Room(has, most int, of string) error {
	if has < most {
		return nil
	}
	return fmt.Errorf("%w: this node keeps %d jobs and runs in memory, of at most %d (records= in the URL of %s): "+
		"delete some, keep less history, or add nodes", store.ErrFull, has, most, of)
}
