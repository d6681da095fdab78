package multisession

import "time"

// fadeAfter is how long a token is remembered at least: twice the time after which a dead connection is
// noticed. From then on nothing comes from it any more.
const fadeAfter = time.Minute

// tokenSet is a set of tokens that forgets each some time after it was added.
type tokenSet struct {
	fresh, old map[string]struct{}
	turned     time.Time
}

func (f *tokenSet) add(token string) {
	if now := time.Now(); now.Sub(f.turned) > fadeAfter || len(f.fresh) >= maxRoutes {
		f.fresh, f.old, f.turned = map[string]struct{}{}, f.fresh, now
	}
	f.fresh[token] = struct{}{}
}

func (f *tokenSet) has(token string) bool {
	_, fresh := f.fresh[token]
	_, old := f.old[token]
	return fresh || old
}

func (f *tokenSet) remove(token string) {
	delete(f.fresh, token)
	delete(f.old, token)
}

// empty reports whether the set is empty. It drops everything if nothing was added for 2*fadeAfter.
func (f *tokenSet) empty() bool {
	if time.Since(f.turned) > 2*fadeAfter {
		f.fresh, f.old = nil, nil
	}
	return len(f.fresh)+len(f.old) == 0
}
