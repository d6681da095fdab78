package bench

import (
	"context"
	"os"
)

// window is what is measured, from begin to end: what the operations cost, and what a profile should cover.
type window struct {
	server  *meter
	client  *meter   // nil: the node is in this process
	profile *profile // nil: none is asked for
}

// begin begins to measure. What it returns must be closed, also after end.
func (b *Bench) begin(ctx context.Context, name string) (*window, error) {
	w := &window{}
	if b.cfg.Profiles != "" {
		var err error
		if w.profile, err = startProfile(ctx, b.cfg.Profiles, name, &b.cfg.Node); err != nil {
			return nil, err
		}
	}
	if !b.cfg.Node.here() {
		w.client = startMeter(os.Getpid())
	}
	w.server = startMeter(append([]int{b.cfg.Node.PID}, b.cfg.Node.Others...)...)
	return w, nil
}

// end says what the operations of a result have cost, and writes the profiles.
func (w *window) end(r *Result) error {
	r.CPU, r.Client = w.server.each(r.Operations), w.client.each(r.Operations)
	r.RSS, r.Files = w.server.rss()
	return w.profile.finish()
}

// close gives up what has not ended.
func (w *window) close() { w.profile.close() }

// here reports whether the node is in this process.
func (n *Node) here() bool { return n.PID == os.Getpid() }
