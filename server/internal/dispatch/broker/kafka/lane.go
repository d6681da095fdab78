package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// What is handed to franz-go at a time, at most, unless one message is larger.
const (
	lotMessages = 4096
	lotBytes    = 8 << 20
)

// entry is a message on its way.
type entry struct {
	call   *call
	i      int // in the call
	record *kgo.Record
	state  state // guarded by the client's mutex
}

// state is where a message is on its way.
type state int

const (
	waiting state = iota
	sent          // handed to franz-go
	settled       // its call knows what became of it
)

// verdicts are what calls are to be told, once the client's mutex is free.
type verdicts []verdict

type verdict struct {
	entry *entry
	err   error
}

// add decides about a message, unless that was done. It is called with the client locked.
func (v *verdicts) add(e *entry, err error) {
	if e.state != settled {
		e.state = settled
		*v = append(*v, verdict{entry: e, err: err})
	}
}

func (v verdicts) tell() {
	for _, one := range v {
		one.entry.call.done(one.entry.i, one.err)
		one.entry.call.settled()
	}
}

// lane has the messages of a topic. It lives while there are any.
type lane struct {
	client *Client
	topic  string

	// guarded by the client's mutex
	waiting []*entry
	stuck   bool // what is under way got no answer for long: nothing else is taken
}

// admit takes a message, or says why not. It is called locked. There is no bound: the callers have one for
// what they have in flight, and several may share a topic.
func (l *lane) admit(e *entry) error {
	if l.stuck {
		return l.errStuck()
	}
	l.waiting = append(l.waiting, e)
	return nil
}

func (l *lane) errStuck() error {
	return fmt.Errorf("%w: what was sent to topic %q before has no answer yet", broker.ErrUnsent, l.topic)
}

// run sends one lot after the other until nothing waits.
func (l *lane) run() {
	for l.more() {
		if err := l.client.reach(); err != nil {
			if l.client.ended.Err() != nil {
				err = errClosed
			}
			l.refuse(fmt.Errorf("%w: no broker of the cluster answers: %w", broker.ErrUnsent, err))
			continue
		}
		if lot := l.take(); len(lot) > 0 {
			l.send(lot)
		}
	}
}

// more reports whether messages wait; if not, the lane has ended.
func (l *lane) more() bool {
	c := l.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(l.waiting) == 0 {
		delete(c.lanes, l.topic)
		return false
	}
	return true
}

// refuse ends what waits.
func (l *lane) refuse(err error) {
	var v verdicts
	l.client.mu.Lock()
	for _, e := range l.waiting {
		v.add(e, err)
	}
	l.waiting = nil
	l.client.mu.Unlock()
	v.tell()
}

// take takes the next lot, without those whose context has ended meanwhile.
func (l *lane) take() []*entry {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	var lot []*entry
	n, size := 0, 0
	for _, e := range l.waiting {
		if e.state == waiting {
			if size += len(e.record.Value); len(lot) > 0 && (len(lot) == lotMessages || size > lotBytes) {
				break
			}
			e.state = sent
			lot = append(lot, e)
		}
		n++
	}
	l.waiting = slices.Delete(l.waiting, 0, n)
	return lot
}

// send sends a lot, and returns when franz-go is done with it.
func (l *lane) send(lot []*entry) {
	c := l.client
	slow := time.AfterFunc(c.options.SendWithin, func() { l.stick(lot) })
	defer slow.Stop()
	late := time.AfterFunc(c.options.AnswerWithin, func() {
		reasons := make([]error, len(lot))
		for i := range reasons {
			reasons[i] = fmt.Errorf("the broker may have it: no answer within %v", c.options.AnswerWithin)
		}
		l.settle(lot, reasons)
	})
	defer late.Stop()
	l.deliver(lot)
	c.mu.Lock()
	defer c.mu.Unlock()
	l.stuck = false
}

// stick has the lane take nothing more while a lot is under way.
func (l *lane) stick(lot []*entry) {
	c := l.client
	c.mu.Lock()
	under := false // the lot may be done just now
	for _, e := range lot {
		under = under || e.state == sent
	}
	l.stuck = under
	c.mu.Unlock()
	if under {
		l.refuse(l.errStuck())
	}
}

// settle decides about the messages of a lot, except those that are to be tried again.
func (l *lane) settle(lot []*entry, reasons []error) {
	var v verdicts
	l.client.mu.Lock()
	for i, e := range lot {
		if reasons[i] != errAgain { //nolint:errorlint // it is never wrapped
			v.add(e, reasons[i])
			if reasons[i] == nil {
				l.client.written[l.topic] = true
			}
		}
	}
	l.client.mu.Unlock()
	v.tell()
}

// deliver hands messages to franz-go and waits for all of them. A refusal may be about other records of the
// batch: then the batch's parts are tried again, until a record was refused alone.
func (l *lane) deliver(lot []*entry) {
	c := l.client
	before := c.wire.now()
	errs := l.produce(lot)
	if has(errs, kerr.UnknownTopicID) && c.wire.now().lost == before.lost {
		// The topic was deleted, and made again. The broker took nothing by the id that franz-go had for it.
		var forgot []int
		for i, err := range errs {
			if errors.Is(err, kerr.UnknownTopicID) {
				forgot = append(forgot, i)
			}
		}
		for i, err := range l.produce(pick(lot, forgot)) {
			errs[forgot[i]] = err
		}
	}
	after := c.wire.now()
	doubt := after.lost != before.lost
	var again []int
	for i, err := range errs {
		if !doubt && ofBatch(err) {
			again = append(again, i)
		}
	}
	if len(again) == 1 {
		again = nil // it was in no batch with others
	}
	reasons := make([]error, len(lot))
	for i, err := range errs {
		unknown := doubt || errors.Is(err, kgo.ErrClientClosed) && after.begun != before.begun
		reasons[i] = l.explain(err, unknown)
	}
	for _, i := range again {
		reasons[i] = errAgain
	}
	l.settle(lot, reasons)
	if half := len(again) / 2; half > 0 {
		l.deliver(pick(lot, again[:half]))
		l.deliver(pick(lot, again[half:]))
	}
}

// errAgain is the verdict on a record that is to be tried again.
var errAgain = errors.New("try again")

func pick(lot []*entry, places []int) []*entry {
	out := make([]*entry, len(places))
	for i, p := range places {
		out[i] = lot[p]
	}
	return out
}

// has reports whether some of the errors are of a kind.
func has(errs []error, kind error) bool {
	return slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, kind) })
}

// produce hands a lot to franz-go in one piece, and returns what became of each.
func (l *lane) produce(lot []*entry) []error {
	records := make([]*kgo.Record, len(lot))
	places := make(map[*kgo.Record]int, len(lot))
	for i, e := range lot {
		fresh := *e.record // franz-go writes into it
		records[i] = &fresh
		places[&fresh] = i
	}
	errs := make([]error, len(lot))
	producer, err := l.client.current()
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	// Its context is none of the messages': what one gives up is not to end the others.
	for _, r := range producer.ProduceSync(context.Background(), records...) {
		errs[places[r.Record]] = r.Err
	}
	switch {
	case has(errs, kerr.ClusterAuthorizationFailed):
		l.client.renew(producer)
	case has(errs, kerr.UnknownTopicID):
		producer.PurgeTopicsFromProducing(l.topic)
	}
	return errs
}
