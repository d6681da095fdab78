package worker

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/stream"
)

// outbox holds what waits to be received beside runs. The stream's lock guards it.
type outbox struct {
	cancels []string
	stales  []string
	acks    []string
	alive   []string // attempts in force that the worker asked about
	drain   bool
	ping    bool

	wanted    []string
	withdrawn []carillon.Credit
	nodes     []string
	version   uint64 // of nodes
	moved     bool   // nodes is to be sent
	bytes     int    // of the tokens, about
	credits   int    // bytes of wanted and withdrawn, about
}

// addToken appends to one of the lists of tokens.
func (o *outbox) addToken(list *[]string, token string) {
	*list = append(*list, token)
	o.bytes += len(token) + stream.Overhead
}

// addWanted adds a queue whose runs wait for credits.
func (o *outbox) addWanted(queue string) {
	o.wanted = append(o.wanted, queue)
	o.credits += len(queue) + stream.Overhead
}

// addWithdrawn adds the answer to a worker that took credits back.
func (o *outbox) addWithdrawn(c carillon.Credit) {
	o.withdrawn = append(o.withdrawn, c)
	o.credits += len(c.Queue) + stream.Overhead
}

// Empty implements [stream.Others].
func (o *outbox) Empty() bool {
	return len(o.cancels)+len(o.stales)+len(o.acks)+len(o.alive)+len(o.wanted)+len(o.withdrawn) == 0 &&
		!o.drain && !o.moved && !o.ping
}

// Bytes implements [stream.Others].
func (o *outbox) Bytes() int { return o.bytes + o.credits }

// take moves as much to msg as fits into what is left of it. It reports whether there was anything but
// tokens.
func (o *outbox) take(msg *carillon.WorkResponse, left *stream.Budget) bool {
	msg.Drain, msg.Ping = o.drain, o.ping
	if o.moved {
		msg.Nodes = o.nodes
	}
	ok := o.drain || o.ping || o.moved || len(o.wanted)+len(o.withdrawn) > 0
	o.drain, o.ping, o.moved = false, false, false
	msg.Wanted, msg.Withdrawn = o.wanted, o.withdrawn
	o.wanted, o.withdrawn, o.credits = nil, nil, 0
	msg.Cancel = o.takeTokens(&o.cancels, left)
	msg.Stale = o.takeTokens(&o.stales, left)
	msg.Acks = o.takeTokens(&o.acks, left)
	msg.Confirmed = o.takeTokens(&o.alive, left)
	return ok
}

func (o *outbox) takeTokens(list *[]string, left *stream.Budget) []string {
	n := 0
	for _, token := range *list {
		size := len(token) + stream.Overhead
		if left.Items == 0 || left.Bytes < size {
			break
		}
		left.Items--
		left.Bytes -= size
		o.bytes -= size
		n++
	}
	taken := (*list)[:n:n]
	*list = (*list)[n:]
	if len(*list) == 0 {
		*list = nil
	}
	if n == 0 {
		return nil
	}
	return taken
}
