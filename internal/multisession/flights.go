package multisession

import "github.com/carillonhq/carillon"

// maxRoutes bounds the runs whose nodes are remembered. It bounds what a worker that never reports the end of
// its runs can cost. Reports on a run whose node was forgotten go through the first node.
const maxRoutes = 1 << 18

// flights knows which node gets the reports on each run that the worker has: the node that it came from, or
// the one that took over from that. It keeps the nodes' counts. The session's lock guards it.
type flights struct {
	first *node
	nodes map[string]*node // by token; runs without an entry came from the first node
}

// add records runs that came from a node.
func (f *flights) add(n *node, runs []carillon.Run) {
	n.flight += len(runs)
	if n == f.first {
		return
	}
	for i := range runs {
		if len(f.nodes) >= maxRoutes {
			for token := range f.nodes {
				f.remove(token)
				break
			}
		}
		f.nodes[runs[i].Token] = n
	}
}

// of returns the node of a token; known is false if nothing says that it is not the first.
func (f *flights) of(token string) (n *node, known bool) {
	if n, known = f.nodes[token]; known {
		return n, true
	}
	return f.first, false
}

// move records that another node gets the reports on a token.
func (f *flights) move(token string, known bool, to *node) {
	if known || len(f.nodes) < maxRoutes {
		f.nodes[token] = to
		to.flight++
	}
}

// reported counts the runs of the first node that the worker says have ended; progress does not end one.
// Those of other nodes end with the node's answer.
func (f *flights) reported(results []carillon.Result) {
	for i := range results {
		if results[i].Outcome == carillon.OutcomeProgress || f.first.flight == 0 {
			continue
		}
		if len(f.nodes) == 0 || f.nodes[results[i].Token] == nil {
			f.first.flight--
		}
	}
}

// remove forgets a token. It returns the node that it had; nil if nothing was known of it.
func (f *flights) remove(token string) *node {
	n := f.nodes[token]
	if n != nil {
		n.flight--
		delete(f.nodes, token)
	}
	return n
}
