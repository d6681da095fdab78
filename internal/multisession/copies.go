package multisession

import "github.com/carillonhq/carillon"

// copies are the attempts whose reports two nodes may have got, since the first one was suspect. Both may
// answer, and the worker is to get the first final answer only. The session's lock guards it.
type copies struct {
	second   map[string]*node // by token: the second node that got reports on it
	answered tokenSet         // tokens that one of two nodes has answered for good
}

// add records that a second node was sent reports.
func (c *copies) add(second *node, req *carillon.WorkRequest) {
	for _, b := range req.Heartbeats {
		c.addToken(second, b.Token)
	}
	for i := range req.Results {
		c.addToken(second, req.Results[i].Token)
	}
}

func (c *copies) addToken(second *node, token string) {
	if len(c.second) < maxRoutes {
		c.second[token] = second
	}
}

// remove forgets a token that was answered for good.
func (c *copies) remove(token string) { delete(c.second, token) }

// resent records that the worker has sent a result again, so that it needs a new answer.
func (c *copies) resent(token string) { c.answered.remove(token) }

// none reports whether no answer can be the second one.
func (c *copies) none() bool { return len(c.second) == 0 && c.answered.empty() }

// answer records a final answer for a token. It reports whether it repeats an earlier one, and whether it is
// the first of two.
func (c *copies) answer(token string) (repeated, firstOfTwo bool) {
	if c.answered.has(token) {
		delete(c.second, token) // a node that was sent it since has nothing to add
		return true, false
	}
	if c.second[token] == nil {
		return false, false
	}
	c.answered.add(token)
	return false, true
}
