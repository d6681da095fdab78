package multisession

import "github.com/carillonhq/carillon"

// notices are the session's own messages to the worker. The session's lock guards them.
type notices struct {
	pending carillon.WorkResponse
	ready   chan struct{} // capacity 1; full when pending may be non-empty
	drained bool          // the worker was told to connect again
}

// withdrawn answers a withdrawal of the worker.
func (o *notices) withdrawn(c carillon.Credit) {
	o.pending.Withdrawn = append(o.pending.Withdrawn, c)
	signal(o.ready)
}

// drain tells the worker to connect again.
func (o *notices) drain() {
	o.pending.Drain = true
	signal(o.ready)
}

// drainOnce reports whether the worker was not told to connect again before; now it is.
func (o *notices) drainOnce() bool {
	first := !o.drained
	o.drained = true
	return first
}

// take removes what is pending.
func (o *notices) take() carillon.WorkResponse {
	pending := o.pending
	o.pending = carillon.WorkResponse{}
	return pending
}

// signal fills a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
