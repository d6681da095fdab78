package multisession

import "time"

// fadeAfter is how long a token is remembered at least: twice the time after which a dead connection is
// noticed. From then on nothing comes from it any more.
const fadeAfter = time.Minute

// tokenSet is a set of tokens that forgets each some time after it was added.
type tokenSet struct {
	recent, old map[string]struct{}
	turned      time.Time
}

func (t *tokenSet) add(token string) {
	if now := time.Now(); now.Sub(t.turned) > fadeAfter || len(t.recent) >= maxRoutes {
		t.recent, t.old, t.turned = map[string]struct{}{}, t.recent, now
	}
	t.recent[token] = struct{}{}
}

func (t *tokenSet) has(token string) bool {
	_, recent := t.recent[token]
	_, old := t.old[token]
	return recent || old
}

func (t *tokenSet) remove(token string) {
	delete(t.recent, token)
	delete(t.old, token)
}

// empty reports whether the set is empty. It drops everything if nothing was added for 2*fadeAfter.
func (t *tokenSet) empty() bool {
	if time.Since(t.turned) > 2*fadeAfter {
		t.recent, t.old = nil, nil
	}
	return len(t.recent)+len(t.old) == 0
}
