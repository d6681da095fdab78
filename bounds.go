package carillon

import (
	"cmp"
	"math"
	"time"
)

// Bounds limit the size of a job's parts. The zero value of a field means its default.
type Bounds struct {
	Payload   int // bytes of the data; default 1 MiB
	Metadata  int // bytes of the metadata's keys and values, and separately of the labels'; default 64 KiB
	Labels    int // number of labels; default 64
	Name      int // bytes of a job's or queue's name; default 512, which is also the maximum
	Namespace int // bytes of a namespace; default 63, which is also the maximum
	Headers   int // bytes of all headers of an HTTP target as sent; default 16 KiB
	URL       int // bytes of an HTTP target's URL; default 8 KiB
	Schedule  int // bytes of a schedule; default 1 KiB
	Note      int // bytes of a note; default 4 KiB
}

// DefaultBounds returns the bounds that hold unless a node is configured otherwise.
func DefaultBounds() Bounds { return Bounds{}.withDefaults() }

// Maximum bytes of names, whatever the configuration: keys in the store are built from them.
const (
	MaxName      = 512
	MaxNamespace = 63
)

func (l Bounds) withDefaults() Bounds {
	return Bounds{
		Payload:   cmp.Or(l.Payload, 1<<20),
		Metadata:  cmp.Or(l.Metadata, 64<<10),
		Labels:    cmp.Or(l.Labels, 64),
		Name:      min(cmp.Or(l.Name, MaxName), MaxName),
		Namespace: min(cmp.Or(l.Namespace, MaxNamespace), MaxNamespace),
		Headers:   cmp.Or(l.Headers, 16<<10),
		URL:       cmp.Or(l.URL, 8<<10),
		Schedule:  cmp.Or(l.Schedule, 1<<10),
		Note:      cmp.Or(l.Note, 4<<10),
	}
}

// Bounds on a job's numbers; they are not configurable.
const (
	MinTimeout = time.Millisecond
	MaxTimeout = 7 * 24 * time.Hour
	MinLease   = time.Second // heartbeats come every quarter of it
	MaxLease   = MaxTimeout
	MaxSpan    = 10 * 366 * 24 * time.Hour // of any other duration: ten years

	MaxRetries     = 1_000_000
	MaxPauseAfter  = math.MaxUint16
	MaxCatchUp     = 10_000 // missed runs that MisfireAll makes up for
	MaxHistoryRuns = 10_000

	MaxDependsOn    = 16     // names in DependsOn
	MaxPending      = 10_000 // unfinished runs of one job beside its own: by trigger, backfill and OverlapAllow
	MaxShownPending = 100    // of them that GetJob shows; ListRuns has the others
	MaxBackfills    = 100    // unfinished backfills of one job
	MaxLimits       = 10_000 // limits of one namespace
	MaxLimit        = 1_000_000

	MaxLabelKey    = 128 // bytes
	MaxLabelValue  = 256 // bytes
	MaxContentType = 256 // bytes
)
