package worker

import (
	"time"

	"github.com/carillonhq/carillon"
)

// outbox holds what waits to be received. The session's lock guards it.
type outbox struct {
	runs    []outgoing
	cancels []string
	stales  []string
	acks    []string
	alive   []string // attempts in force that the worker asked about
	drain   bool
	ping    bool

	wanted    []string
	withdrawn []carillon.Credit
	nodes     []string
	version   uint64     // of nodes
	moved     bool       // nodes is to be sent
	over      []outgoing // runs whose lease ended here, to be handed back
	bytes     int        // of all that, approximately
}

type outgoing struct {
	run     *carillon.Run
	size    int
	attempt *attempt
}

// overhead is the approximate size of an item in bytes without its text.
const overhead = 16

// sizeOf returns the approximate size of a run in a message, in bytes.
func sizeOf(r *carillon.Run) int {
	n := 8*overhead + len(r.ID) + len(r.Namespace) + len(r.Job) + len(r.Token) + len(r.Queue) + len(r.Data.Bytes) +
		len(r.Data.ContentType)
	for k, v := range r.Metadata {
		n += overhead + len(k) + len(v)
	}
	return n
}

func (o *outbox) addRun(r *carillon.Run, a *attempt) {
	size := sizeOf(r)
	o.runs = append(o.runs, outgoing{r, size, a})
	o.bytes += size
}

// addToken appends to one of the lists of tokens.
func (o *outbox) addToken(list *[]string, token string) {
	*list = append(*list, token)
	o.bytes += len(token) + overhead
}

// addWanted adds a queue whose runs wait for credits.
func (o *outbox) addWanted(queue string) {
	o.wanted = append(o.wanted, queue)
	o.bytes += len(queue) + overhead
}

// addWithdrawn adds the answer to a worker that took credits back.
func (o *outbox) addWithdrawn(c carillon.Credit) {
	o.withdrawn = append(o.withdrawn, c)
	o.bytes += len(c.Queue) + overhead
}

// takeCredits moves the messages about credits to msg.
func (o *outbox) takeCredits(msg *carillon.WorkResponse) {
	msg.Wanted, msg.Withdrawn = o.wanted, o.withdrawn
	for _, q := range o.wanted {
		o.bytes -= len(q) + overhead
	}
	for _, c := range o.withdrawn {
		o.bytes -= len(c.Queue) + overhead
	}
	o.wanted, o.withdrawn = nil, nil
}

func (o *outbox) empty() bool {
	return len(o.runs)+len(o.cancels)+len(o.stales)+len(o.acks)+len(o.alive)+len(o.wanted)+len(o.withdrawn) == 0 &&
		!o.drain && !o.moved && !o.ping
}

// budget is how much still fits into a message.
type budget struct{ bytes, items int }

// take returns the next message, if there is anything to send. What stops runs goes first, new runs last.
func (o *outbox) take(bytes, items int, now time.Time) (msg carillon.WorkResponse, ok bool) {
	left := budget{bytes, items}
	msg.Drain, msg.Ping = o.drain, o.ping
	if o.moved {
		msg.Nodes = o.nodes
	}
	ok = o.drain || o.ping || o.moved || len(o.wanted)+len(o.withdrawn) > 0
	o.drain, o.ping, o.moved = false, false, false
	o.takeCredits(&msg)
	msg.Cancel = o.takeTokens(&o.cancels, &left)
	msg.Stale = o.takeTokens(&o.stales, &left)
	msg.Acks = o.takeTokens(&o.acks, &left)
	msg.Confirmed = o.takeTokens(&o.alive, &left)
	msg.Runs = o.takeRuns(&left, now)
	return msg, ok || left.items < items
}

func (o *outbox) takeTokens(list *[]string, left *budget) []string {
	n := 0
	for _, token := range *list {
		size := len(token) + overhead
		if left.items == 0 || left.bytes < size {
			break
		}
		left.items--
		left.bytes -= size
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

// takeRuns takes at least one run, however large, so that tokens cannot hold up runs for ever. A run whose
// lease has ended is not taken: the process was halted, and the run was or will be given to another worker.
func (o *outbox) takeRuns(left *budget, now time.Time) []carillon.Run {
	var runs []carillon.Run
	n := 0
	for i := range o.runs {
		r := &o.runs[i]
		if r.attempt.void {
			o.bytes -= r.size
			n++
			continue
		}
		if late(r.run, now) {
			r.attempt.void = true
			o.over = append(o.over, *r)
			o.bytes -= r.size
			n++
			continue
		}
		if left.items == 0 || (left.bytes < r.size && len(runs) > 0) {
			break
		}
		left.items--
		left.bytes -= r.size
		o.bytes -= r.size
		r.attempt.sent = true
		if runs == nil {
			runs = make([]carillon.Run, 0, min(len(o.runs)-i, left.items+1))
		}
		runs = append(runs, *r.run)
		n++
	}
	clear(o.runs[:n]) // payloads must not live as long as the rest of the slice
	o.runs = o.runs[n:]
	if len(o.runs) == 0 {
		o.runs = nil
	}
	return runs
}

// late reports whether the lease of a run that was not received is over.
func late(r *carillon.Run, now time.Time) bool {
	return r.Lease > 0 && now.After(r.Started.Add(r.Lease))
}

// clearRuns drops the runs and returns the tokens of those that were not cancelled.
func (o *outbox) clearRuns() []string {
	var tokens []string
	for i := range o.runs {
		o.bytes -= o.runs[i].size
		if a := o.runs[i].attempt; !a.void {
			tokens = append(tokens, o.runs[i].run.Token)
		}
	}
	o.runs = nil
	return tokens
}
