package carillon

// Namespace is what is set for a namespace as a whole. A namespace that nobody has set anything for has the zero settings.
type Namespace struct {
	Name string
	// Strict refuses recurring jobs whose retries can take as long as their interval, which otherwise only earn a warning.
	Strict bool
	// Limits is, for each limit key, how many attempts of the jobs with that key may be in force at a time, across the
	// cluster. A key that is not here is not limited; 0 lets nothing run.
	Limits map[string]int
}

// Validate names the first field that is wrong.
func (n *Namespace) Validate() error {
	if err := ValidateNamespace(n.Name); err != nil {
		return WithField(err, "name")
	}
	if len(n.Limits) > MaxLimits {
		return Errorf(InvalidArgument, "limits", "%d limits are more than %d", len(n.Limits), MaxLimits)
	}
	for _, key := range sortedKeys(n.Limits) {
		if err := checkLimitName("limits", key); err != nil {
			return err
		}
		if err := checkNumber("limits."+clip(key), n.Limits[key], 0, MaxLimit); err != nil {
			return err
		}
	}
	return nil
}

// MaxLimitKey is the most bytes of a limit key.
const MaxLimitKey = 256

func checkLimitName(field, key string) error {
	switch {
	case key == "":
		return Errorf(InvalidArgument, field, "a key is empty")
	case len(key) > MaxLimitKey:
		return tooLarge(field, len(key), MaxLimitKey)
	case !printable(key):
		return Errorf(InvalidArgument, field, "%q has a character that is not printable", clip(key))
	}
	return nil
}
