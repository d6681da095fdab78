package doctor

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// Finding is something that is wrong.
type Finding struct {
	Kind      Kind   `json:"kind"`
	Partition int    `json:"partition"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Pending   uint64 `json:"pending_run,omitempty"` // sequence of a pending run
	Run       string `json:"run,omitempty"`         // id of a run
	What      string `json:"what"`
	Mended    bool   `json:"mended"`
}

// Tally is how many there are of a kind.
type Tally struct {
	Found  int64 `json:"found"`
	Mended int64 `json:"mended"`
}

// Report tells what was examined, and what is wrong with it.
type Report struct {
	Partitions  int   `json:"partitions"`
	Jobs        int64 `json:"jobs"`
	PendingRuns int64 `json:"pending_runs"`
	Runs        int64 `json:"runs"` // finished ones
	Meta        int64 `json:"metadata_records"`
	// Sealed is how many jobs and pending runs are encrypted, and were not looked into without keys.
	Sealed int64 `json:"encrypted,omitempty"`

	Kinds    map[Kind]Tally `json:"kinds"`
	Findings []Finding      `json:"findings"` // the first of each kind

	most int // findings of each kind
}

// Left is how many findings were not mended.
func (r *Report) Left() (n int64) {
	for _, t := range r.Kinds {
		n += t.Found - t.Mended
	}
	return n
}

func (r *Report) add(f Finding) {
	t := r.Kinds[f.Kind]
	if t.Found++; f.Mended {
		t.Mended++
	}
	r.Kinds[f.Kind] = t
	if t.Found <= int64(r.most) {
		r.Findings = append(r.Findings, f)
	}
}

// findingOf makes a finding of a record.
func findingOf(kind Kind, partition int, ref store.Ref, what string) Finding {
	return Finding{Kind: kind, Partition: partition, Namespace: ref.Namespace, Name: ref.Name, Pending: ref.Seq,
		What: what}
}

// findingOfRun makes a finding of a run.
func findingOfRun(kind Kind, partition int, key carillon.Key, id store.RunID, what string) Finding {
	f := findingOf(kind, partition, store.Ref{Key: key}, what)
	if id != (store.RunID{}) {
		f.Run = id.String()
	}
	return f
}
