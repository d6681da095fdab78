package carillon

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Namespace is the settings of a namespace as a whole. A namespace without settings has the zero value.
type Namespace struct {
	Name string
	// Strict refuses recurring jobs whose retries can take as long as their interval; otherwise these only
	// get a warning.
	Strict bool
	// ConcurrencyLimits is, for each concurrency key, how many attempts of the jobs with that key may be in
	// force at a time, across the cluster. A key that is not listed has no limit; 0 lets nothing run.
	ConcurrencyLimits map[string]int
	// Webhooks are where events of the namespace are sent, at most [MaxWebhooks].
	Webhooks []Webhook
	// UnservedAfter is for how long a queue of the namespace must be unserved before an event says so, from
	// 1 min to 24 h; default [DefaultUnservedAfter].
	UnservedAfter time.Duration
	// Quotas bound what the namespace as a whole may have and use.
	Quotas Quotas
	// RateLimits is, for each concurrency key, how often attempts of the jobs with that key may begin, across
	// the cluster. A retry is an attempt. What may not begin yet waits in line. A concurrency limit of the
	// same key holds beside it.
	RateLimits map[string]Rate
	// Used is what the namespace has of what its quotas bound; nil if it is not told. Only
	// [Namespaces.GetNamespace] tells it, of a namespace with a quota of jobs or bytes, unless a partition does
	// not say in time what it has; a put ignores it.
	Used *Usage
	// Generation counts the changes of the settings, from 1, which is that of a namespace without settings.
	// In a put, if not 0, it is the generation that the settings are meant to replace.
	Generation uint64
}

// Over returns the result of putting n over the settings in force; the generation grows if anything changes.
// A put meant for another generation is refused. So is a put without a generation that gives no limits,
// quotas or webhooks, and would remove those that there are: an empty body must not lift them.
func (n Namespace) Over(old Namespace) (Namespace, error) {
	switch {
	case n.Generation != 0 && n.Generation != old.Generation:
		return old, Errorf(FailedPrecondition, "generation", "namespace %q is at generation %d",
			old.Name, old.Generation)
	case n.Generation == 0 && len(n.ConcurrencyLimits) == 0 && len(old.ConcurrencyLimits) != 0:
		return old, Errorf(FailedPrecondition, "concurrency_limits",
			"it would remove the limits that namespace %q has, %d of them; "+
				"to do that say the generation that is to be replaced, %d, in generation or If-Match",
			old.Name, len(old.ConcurrencyLimits), old.Generation)
	case n.Generation == 0 && len(n.RateLimits) == 0 && len(old.RateLimits) != 0:
		return old, Errorf(FailedPrecondition, "rate_limits",
			"it would remove the rate limits that namespace %q has, %d of them; "+
				"to do that say the generation that is to be replaced, %d, in generation or If-Match",
			old.Name, len(old.RateLimits), old.Generation)
	case n.Generation == 0 && n.Quotas == (Quotas{}) && old.Quotas != (Quotas{}):
		return old, Errorf(FailedPrecondition, "quotas",
			"it would remove the quotas that namespace %q has; "+
				"to do that say the generation that is to be replaced, %d, in generation or If-Match",
			old.Name, old.Generation)
	case n.Generation == 0 && len(n.Webhooks) == 0 && len(old.Webhooks) != 0:
		return old, Errorf(FailedPrecondition, "webhooks",
			"it would remove the webhooks that namespace %q has, %d of them; "+
				"to do that say the generation that is to be replaced, %d, in generation or If-Match",
			old.Name, len(old.Webhooks), old.Generation)
	}
	n.Generation, n.Used = old.Generation, nil
	if !n.SetsLike(&old) {
		n.Generation++
	}
	return n, nil
}

// SetsLike reports whether n sets the same as o. Names, generations and what is used do not count.
func (n *Namespace) SetsLike(o *Namespace) bool {
	return n.Strict == o.Strict && maps.Equal(n.ConcurrencyLimits, o.ConcurrencyLimits) &&
		n.UnservedAfter == o.UnservedAfter && n.Quotas == o.Quotas && maps.Equal(n.RateLimits, o.RateLimits) &&
		slices.EqualFunc(n.Webhooks, o.Webhooks, Webhook.equal)
}

// Clone returns a copy that shares nothing with n.
func (n *Namespace) Clone() Namespace {
	c := *n
	c.ConcurrencyLimits = maps.Clone(n.ConcurrencyLimits)
	c.RateLimits = maps.Clone(n.RateLimits)
	c.Webhooks = slices.Clone(n.Webhooks)
	for i := range c.Webhooks {
		c.Webhooks[i] = c.Webhooks[i].clone()
	}
	if n.Used != nil {
		c.Used = new(*n.Used)
	}
	return c
}

// Validate returns an error about the first wrong field.
func (n *Namespace) Validate() error {
	if err := ValidateNamespace(n.Name); err != nil {
		return WithField(err, "name")
	}
	if len(n.ConcurrencyLimits) > MaxLimits {
		return invalid("concurrency_limits", "%d limits are more than %d", len(n.ConcurrencyLimits), MaxLimits)
	}
	for _, key := range sortedKeys(n.ConcurrencyLimits) {
		err := cmp.Or(checkLimitName("concurrency_limits", key),
			checkNumber("concurrency_limits."+clip(key), n.ConcurrencyLimits[key], 0, MaxLimit))
		if err != nil {
			return err
		}
	}
	return cmp.Or(checkWebhooks(n.Webhooks),
		checkSpan("unserved_after", n.UnservedAfter, MinUnservedAfter, MaxUnservedAfter),
		n.Quotas.Validate(), checkRates(n.RateLimits))
}

// Bounds on [Namespace.UnservedAfter], and its default.
const (
	MinUnservedAfter     = time.Minute
	MaxUnservedAfter     = 24 * time.Hour
	DefaultUnservedAfter = 5 * time.Minute
)

// MaxConcurrencyKey is the maximum length of a concurrency key, in bytes.
const MaxConcurrencyKey = 256

func checkLimitName(field, key string) error {
	switch {
	case key == "":
		return invalid(field, "a key is empty")
	case len(key) > MaxConcurrencyKey:
		return tooLarge(field, len(key), MaxConcurrencyKey)
	case !printable(key):
		return invalid(field, "%q has a character that is not printable", clip(key))
	}
	return nil
}
