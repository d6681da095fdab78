package carillon

import "time"

// Hold is what keeps a run from going on, as the owner of its partition saw it when it was asked. Nothing of
// it is stored. Programs go by the code, of which later versions may know more; docs/concepts.md lists them.
type Hold struct {
	Code  string    // "not_due", "paused", "no_consumer", "limit", …
	Text  string    // a sentence for people
	Since time.Time // since when it has been so; zero: not known
	Until time.Time // when it ends by itself; zero: it does not, or that is not known
}
