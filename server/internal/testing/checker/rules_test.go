package checker

import "testing"

// TestRulesCanBeAskedAlone: what breaks one rule is found by it, and by no other that is asked.
func TestRulesCanBeAskedAlone(t *testing.T) {
	h := streamed()
	h.limit(1)
	h.beside().Node = "n"
	for name, rule := range map[string]struct {
		ask   func(c *check)
		finds int
	}{
		"limits of sidecars": {func(c *check) { daprRules{c}.gates() }, 1},
		"limits of settings": {func(c *check) { limitRules{c}.limits() }, 0},
		"owners":             {func(c *check) { storeRules{c}.claims() }, 0},
		"rest":               {func(c *check) { restRules{c}.rest() }, 0},
		"nothing comes early": {func(c *check) {
			for _, id := range c.ids {
				runRules{c}.early(c.runs[id])
			}
		}, 0},
	} {
		c := newCheck(&h.History, Spec{})
		if rule.ask(c); len(c.v.Violations) != rule.finds {
			t.Errorf("%s: %v", name, c.v.Violations)
		}
	}
}
