package carillon

// Quotas bound what a namespace as a whole may use. The zero value of a field is no quota.
type Quotas struct {
	// Runs is how often attempts of the namespace may begin, across the cluster, whatever their target.
	Runs Rate
	// ConcurrentRuns is how many attempts of the namespace may be in force at a time, across the cluster.
	ConcurrentRuns int64
}

// Validate returns an error about the first wrong field.
func (q Quotas) Validate() error {
	if q.Runs != (Rate{}) {
		if err := q.Runs.Validate("quotas.runs"); err != nil {
			return err
		}
	}
	return checkInRange("quotas.concurrent_runs", q.ConcurrentRuns, 0, MaxLimit)
}
