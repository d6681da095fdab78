package carillon

import "cmp"

// Quotas are how much a namespace may have, over the whole cluster. The zero value of a field is no quota.
//
// Jobs that exist are changed and deleted whatever Jobs is, and stay when a quota is set below what there is.
type Quotas struct {
	Jobs         int64 // most jobs, at most [MaxQuotaJobs]
	PayloadBytes int64 // most bytes of data of its jobs together, at most [MaxQuotaBytes]
	// Puts is how often jobs may be put, created, changed, deleted and triggered; each job of a batch counts.
	Puts Rate
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

func (q *Quotas) validate() error {
	return cmp.Or(checkAmount("quotas.jobs", q.Jobs, MaxQuotaJobs),
		checkAmount("quotas.payload_bytes", q.PayloadBytes, MaxQuotaBytes),
		q.Puts.validate("quotas.puts"))
}

func checkAmount(field string, n, most int64) error {
	if n < 0 || n > most {
		return invalid(field, "%d is out of range 0-%d; 0 is no quota", n, most)
	}
	return nil
}
