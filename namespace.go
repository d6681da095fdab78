package carillon

import "maps"

// Namespace is what is set for a namespace as a whole. A namespace that nobody has set anything for has the zero settings.
type Namespace struct {
	Name string
	// Strict refuses recurring jobs whose retries can take as long as their interval, which otherwise only earn a warning.
	Strict bool
	// ConcurrencyLimits is, for each concurrency key, how many attempts of the jobs with that key may be in force at a time, across the
	// cluster. A key that is not here is not limited; 0 lets nothing run.
	ConcurrencyLimits map[string]int
	// Generation counts what has been set, from 1: that of a namespace that nobody has set anything for. In a put, if it is not
	// 0, it is the generation that the settings are meant to replace.
	Generation uint64
}

// Over is what a put of n leaves, over the settings in force: the generation counts on if anything changes. A put that is
// meant for another generation is refused, and so is one without any limits that would remove limits unless it says which
// generation it is meant for: an empty body must not set free what is limited.
func (n Namespace) Over(old Namespace) (Namespace, error) {
	switch {
	case n.Generation != 0 && n.Generation != old.Generation:
		return old, Errorf(FailedPrecondition, "generation", "namespace %q is at generation %d", old.Name, old.Generation)
	case n.Generation == 0 && len(n.ConcurrencyLimits) == 0 && len(old.ConcurrencyLimits) != 0:
		return old, Errorf(FailedPrecondition, "concurrency_limits", "it would remove the limits that namespace %q has, %d of them; "+
			"to do that say the generation that is to be replaced, %d, in generation or If-Match",
			old.Name, len(old.ConcurrencyLimits), old.Generation)
	}
	n.Generation = old.Generation
	if n.Strict != old.Strict || !maps.Equal(n.ConcurrencyLimits, old.ConcurrencyLimits) {
		n.Generation++
	}
	return n, nil
}

// Validate names the first field that is wrong.
func (n *Namespace) Validate() error {
	if err := ValidateNamespace(n.Name); err != nil {
		return WithField(err, "name")
	}
	if len(n.ConcurrencyLimits) > MaxLimits {
		return Errorf(InvalidArgument, "concurrency_limits", "%d limits are more than %d", len(n.ConcurrencyLimits), MaxLimits)
	}
	for _, key := range sortedKeys(n.ConcurrencyLimits) {
		if err := checkLimitName("concurrency_limits", key); err != nil {
			return err
		}
		if err := checkNumber("concurrency_limits."+clip(key), n.ConcurrencyLimits[key], 0, MaxLimit); err != nil {
			return err
		}
	}
	return nil
}

// MaxConcurrencyKey is the most bytes of a concurrency key.
const MaxConcurrencyKey = 256

func checkLimitName(field, key string) error {
	switch {
	case key == "":
		return Errorf(InvalidArgument, field, "a key is empty")
	case len(key) > MaxConcurrencyKey:
		return tooLarge(field, len(key), MaxConcurrencyKey)
	case !printable(key):
		return Errorf(InvalidArgument, field, "%q has a character that is not printable", clip(key))
	}
	return nil
}
