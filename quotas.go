package carillon

import "cmp"

// Quotas are how much a namespace as a whole may have and use, over the whole cluster. The zero value of a
// field is no quota.
//
// Jobs that exist are changed and deleted whatever Jobs is, and stay when a quota is set below what there is.
type Quotas struct {
	Jobs         int64 // most jobs, at most [MaxQuotaJobs]
	PayloadBytes int64 // most bytes of data of its jobs together, at most [MaxQuotaBytes]
	// Puts is how often jobs may be put, created, changed, deleted and triggered; each job of a batch counts.
	Puts Rate
	// Runs is how often attempts of the namespace may begin, whatever their target.
	Runs Rate
	// ConcurrentRuns is how many attempts of the namespace may be in force at a time, whatever their target.
	ConcurrentRuns int64
}

// Upper bounds of quotas.
const (
	MaxQuotaJobs  = 1_000_000_000
	MaxQuotaBytes = 1 << 50 // 1 PiB
)

// Stores reports whether q bounds what the namespace has in the store.
func (q *Quotas) Stores() bool { return q.Jobs != 0 || q.PayloadBytes != 0 }

// Usage is what a namespace has of what its quotas bound.
type Usage struct {
	Jobs         int64
	PayloadBytes int64
}

// Validate returns an error about the first wrong field.
func (q *Quotas) Validate() error {
	return cmp.Or(checkAmount("quotas.jobs", q.Jobs, MaxQuotaJobs),
		checkAmount("quotas.payload_bytes", q.PayloadBytes, MaxQuotaBytes),
		checkQuotaRate("quotas.puts", q.Puts), checkQuotaRate("quotas.runs", q.Runs),
		checkAmount("quotas.concurrent_runs", q.ConcurrentRuns, MaxLimit))
}

func checkAmount(field string, n, most int64) error {
	if n < 0 || n > most {
		return invalid(field, "%d is out of range 0-%d; 0 is no quota", n, most)
	}
	return nil
}

func checkQuotaRate(field string, r Rate) error {
	if r == (Rate{}) {
		return nil
	}
	return r.Validate(field)
}
