package dispatch

import (
	"fmt"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// Refuser is a [Transport] that knows of some addresses that it refuses.
type Refuser interface {
	// Refuses returns why every attempt to reach the address of a queue will fail, or wait; "" if it knows of
	// nothing.
	// It must not block.
	Refuses(address string) (why string)
}

// fieldsOfAddresses are the fields, of targets of the kinds that a transport serves, with what it may refuse.
var fieldsOfAddresses = map[string]string{"http": "url", "kafka": "cluster", "amqp": "broker",
	"nats": "server", "redis": "server"}

// Advise returns what keeps a queue's runs from being delivered now, preceded by the job's field at fault; ""
// if nothing is known to.
func (h *Hub) Advise(name delivery.Queue) string {
	if h.isPaused(name) {
		return fmt.Sprintf("target: the %s queue %.64q of namespace %q is paused; runs wait until it is resumed", name.Kind,
			name.Address, name.Namespace)
	}
	switch name.Kind {
	case "worker":
		if h.abandoned(name) {
			return fmt.Sprintf("target.worker.queue: nobody serves queue %.64q of namespace %q now; runs wait until a worker does",
				name.Address, name.Namespace)
		}
	default:
		if r, ok := h.options.Transports[name.Kind].(Refuser); ok {
			if why := r.Refuses(name.Address); why != "" {
				return fmt.Sprintf("target.%s.%s: %s", name.Kind, fieldsOfAddresses[name.Kind], why)
			}
		}
	}
	return ""
}

func (h *Hub) isPaused(name delivery.Queue) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.paused[name]
}

// abandoned reports whether the queue has no consumer and none may be on its way.
func (h *Hub) abandoned(name delivery.Queue) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.queues[name]
	return (q == nil || q.unserved()) && h.absence.abandoned(name)
}
