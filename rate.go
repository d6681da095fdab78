package carillon

import (
	"cmp"
	"time"
)

// Rate is how often something may happen: Count times per Period, evenly, and up to Burst times at once after
// a pause. The zero value is no bound.
type Rate struct {
	Count  int64         // at most [MaxRate]
	Period time.Duration // from [MinRatePeriod] to [MaxRatePeriod]; default MinRatePeriod
	Burst  int64         // at most [MaxRate]; default Count
}

// Bounds of a [Rate].
const (
	MaxRate       = 1_000_000_000
	MinRatePeriod = time.Second
	MaxRatePeriod = 24 * time.Hour
)

// WithDefaults returns r with its defaults filled in; the zero value stays as it is.
func (r Rate) WithDefaults() Rate {
	if r.Count == 0 {
		return r
	}
	return Rate{Count: r.Count, Period: cmp.Or(r.Period, MinRatePeriod), Burst: cmp.Or(r.Burst, r.Count)}
}

// validate returns an error about the first wrong field; field is the API name of the rate.
func (r *Rate) validate(field string) error {
	switch {
	case r.Count < 0 || r.Count > MaxRate:
		return invalid(field+".count", "%d is out of range 0-%d; 0 is no rate", r.Count, MaxRate)
	case r.Count == 0 && r.Period != 0:
		return invalid(field+".period", "it says nothing without %s.count", field)
	case r.Count == 0 && r.Burst != 0:
		return invalid(field+".burst", "it says nothing without %s.count", field)
	case r.Burst < 0 || r.Burst > MaxRate:
		return invalid(field+".burst", "%d is out of range 0-%d; 0 is the default, as many as count", r.Burst, MaxRate)
	}
	return checkSpan(field+".period", r.Period, MinRatePeriod, MaxRatePeriod)
}
