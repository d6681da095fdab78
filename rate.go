package carillon

import (
	"cmp"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/schedule"
)

// Rate is how often something may happen: a bucket of Burst tokens, of which each time takes one, that is
// filled with Count tokens in each Period, evenly. So within any time W it happens at most
// Burst + W·Count/Period times. The zero value is no rate.
type Rate struct {
	Count  int64         // from 1 to [MaxRate]
	Period time.Duration // from 1 s to 24 h; default 1 s
	Burst  int64         // how many at once after a pause, from 1 to [MaxRate]; default Count
}

// Bounds on [Rate].
const (
	MaxRate       = 1_000_000
	MinRatePeriod = time.Second
	MaxRatePeriod = 24 * time.Hour
)

// WithDefaults returns r with the defaults filled in. The zero value stays.
func (r Rate) WithDefaults() Rate {
	if r.Count == 0 {
		return r
	}
	r.Period = cmp.Or(r.Period, MinRatePeriod)
	r.Burst = cmp.Or(r.Burst, r.Count)
	return r
}

// String returns r for people, such as "5 in 1m, at most 10 at once".
func (r Rate) String() string {
	r = r.WithDefaults()
	return fmt.Sprintf("%d in %s, at most %d at once", r.Count, schedule.Brief(r.Period), r.Burst)
}

// Validate returns an error about the first wrong field, whose name begins with field.
func (r Rate) Validate(field string) error {
	if err := checkInRange(field+".count", r.Count, 1, MaxRate); err != nil {
		return err
	}
	if err := checkSpan(field+".period", r.Period, MinRatePeriod, MaxRatePeriod); err != nil {
		return err
	}
	if r.Burst == 0 {
		return nil
	}
	return checkInRange(field+".burst", r.Burst, 1, MaxRate)
}

// checkInRange is checkNumber for large numbers.
func checkInRange(field string, n, least, most int64) error {
	if n < least || n > most {
		return invalid(field, "%d is out of range %d-%d", n, least, most)
	}
	return nil
}

// checkRates checks the rate limits of a namespace.
func checkRates(rates map[string]Rate) error {
	if len(rates) > MaxLimits {
		return invalid("rate_limits", "%d limits are more than %d", len(rates), MaxLimits)
	}
	for _, key := range sortedKeys(rates) {
		err := cmp.Or(checkLimitName("rate_limits", key), rates[key].Validate("rate_limits."+clip(key)))
		if err != nil {
			return err
		}
	}
	return nil
}
