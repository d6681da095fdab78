package sidecar

import "github.com/carillonhq/carillon"

// pending holds what waits to be received. The session's lock guards it.
type pending struct {
	queue []*attempt // including cancelled ones, until their turn comes
	void  int        // number of cancelled ones in queue
	bytes int        // of the others, approximately
}

// overhead is the approximate size of a field in bytes without its text.
const overhead = 16

// sizeOf returns the approximate size of a run in bytes.
func sizeOf(r *carillon.Run) int {
	n := 8*overhead + len(r.ID) + len(r.Namespace) + len(r.Job) + len(r.Token) + len(r.Queue) + len(r.Data.Bytes) +
		len(r.Data.ContentType)
	for k, v := range r.Metadata {
		n += overhead + len(k) + len(v)
	}
	return n
}

func (p *pending) add(a *attempt) {
	p.queue = append(p.queue, a)
	p.bytes += a.size
}

// drop removes a cancelled run. Its place stays until its turn comes, or until half of the queue is such
// places.
func (p *pending) drop(a *attempt) {
	p.bytes -= a.size
	a.run, a.target = nil, nil
	if p.void++; 2*p.void < len(p.queue) {
		return
	}
	p.queue = p.inForce()
	p.void = 0
}

// inForce returns what was not cancelled, in a new slice.
func (p *pending) inForce() []*attempt {
	left := make([]*attempt, 0, len(p.queue)-p.void)
	for _, a := range p.queue {
		if !a.void {
			left = append(left, a)
		}
	}
	return left
}

// clear drops everything and returns what was not cancelled.
func (p *pending) clear() []*attempt {
	left := p.inForce()
	*p = pending{}
	return left
}

// take removes at least one run, however large, and as many more as fit.
func (p *pending) take(bytes, items int, hand func(*attempt) Delivery) []Delivery {
	var ds []Delivery
	n := 0
	for _, a := range p.queue {
		if a.void {
			p.void--
			n++
			continue
		}
		if len(ds) == items || (len(ds) > 0 && a.size > bytes) {
			break
		}
		if ds == nil {
			ds = make([]Delivery, 0, min(items, len(p.queue)-n))
		}
		bytes -= a.size
		p.bytes -= a.size
		ds = append(ds, hand(a))
		n++
	}
	clear(p.queue[:n])
	p.queue = p.queue[n:]
	if len(p.queue) == 0 {
		p.queue = nil
	}
	return ds
}
