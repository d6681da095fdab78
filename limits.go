package carillon

import (
	"cmp"
	"time"
)

// Bounds bound what a job may bring along. The zero value of a field means its default.
type Bounds struct {
	Payload   int // bytes of the data; default 1 MiB
	Metadata  int // bytes of all keys and values of the metadata, and again of the labels; default 64 KiB
	Labels    int // how many labels; default 64
	Name      int // bytes of a job's or queue's name; default 512, which is also the most
	Namespace int // bytes of a namespace; default 63, which is also the most
	Headers   int // bytes of all headers of an HTTP target as they are sent; default 16 KiB
	URL       int // bytes of an HTTP target's URL; default 8 KiB
	Schedule  int // bytes of a schedule; default 1 KiB
	Note      int // bytes of a note; default 4 KiB
}

// DefaultBounds are the limits of security.md.
func DefaultBounds() Bounds { return Bounds{}.withDefaults() }

// The most bytes of names, whatever the configuration: keys in the store are built from them.
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

// Bounds that make sense of a job's numbers; they are not configurable.
const (
	MinTimeout = time.Millisecond
	MaxTimeout = 7 * 24 * time.Hour
	MinLease   = time.Second // heartbeats come every quarter of it
	MaxLease   = MaxTimeout
	MaxSpan    = 10 * 366 * 24 * time.Hour // of any other duration: ten years

	MaxRetries     = 1_000_000
	MaxCatchUp     = 10_000 // runs made up for under MisfireAll
	MaxHistoryRuns = 10_000

	MaxAfter     = 16     // names in After
	MaxPending   = 10_000 // unfinished runs of one job beside its own: by trigger, backfill and OverlapAllow
	MaxBackfills = 100    // unfinished backfills of one job
	MaxLimits    = 10_000 // limits of one namespace
	MaxLimit     = 1_000_000

	MaxLabelKey    = 128 // bytes
	MaxLabelValue  = 256 // bytes
	MaxContentType = 256 // bytes
)
