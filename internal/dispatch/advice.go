package dispatch

import (
	"fmt"

	"github.com/carillonhq/carillon/internal/partition"
)

// Refuser is a [Transport] that knows of some addresses that it will refuse them.
type Refuser interface {
	// Refuses says why every attempt to reach the address of a queue will fail; "" if that is not known. It must not block.
	Refuses(address string) (why string)
}

// Advise is what stands in the way of a queue's runs now, with the field of a job that is to blame; "" if nothing is known to.
func (h *Hub) Advise(name partition.Queue) string {
	switch name.Kind {
	case "worker":
		if h.abandoned(name) {
			return fmt.Sprintf("target.worker.queue: nobody serves queue %.64q of namespace %q now; runs wait until a worker does",
				name.Address, name.Namespace)
		}
	case "http":
		if r, ok := h.options.Transports[name.Kind].(Refuser); ok {
			if why := r.Refuses(name.Address); why != "" {
				return "target.http.url: " + why
			}
		}
	}
	return ""
}

// abandoned reports whether nobody is there who may get runs of the queue, nor may be on his way.
func (h *Hub) abandoned(name partition.Queue) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.queues[name]
	return (q == nil || q.unserved()) && h.absence.abandoned(name)
}
