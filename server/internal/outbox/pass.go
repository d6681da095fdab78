package outbox

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/httpapi"
	"github.com/carillonhq/carillon/server/internal/message"
)

// Bounds of what is under way.
const (
	rowsAtOnce  = 256
	bytesAtOnce = 32 << 20
	// callWithin is until when after a row was read its command may be done. It is less than doneKept by far:
	// Carillon does nothing for a call that comes later.
	callWithin = 10 * time.Second
	// againWithin is the same for a command that was tried before, so that those that hang leave room. Each
	// fullEvery-th try has callWithin again: what takes longer than this is done then.
	againWithin = time.Second
	fullEvery   = 4
	// seeThrough is how long a reader that ends waits for what is under way. What takes longer waits for
	// something, such as an owner of its partition, and is as well off with who reads next.
	seeThrough = time.Second
)

// pass reads rows and has their commands done, as long as its node is in charge. One goroutine uses it; each
// command under way has another, which only sends its outcome.
type pass struct {
	reader   *Reader
	pool     *pgxpool.Pool
	watch    *watch
	names    map[carillon.Key][]*row   // of the commands under way, each with the rows that follow it
	rows     map[int64]struct{}        // in memory
	bytes    int                       // of them
	parked   struct{ rows, bytes int } // the same of those that were parked
	outcomes chan outcome
	more     bool // rows that were parked may be due now
	running  sync.WaitGroup
}

func newPass(r *Reader, pool *pgxpool.Pool, w *watch) *pass {
	return &pass{reader: r, pool: pool, watch: w, names: map[carillon.Key][]*row{}, rows: map[int64]struct{}{},
		outcomes: make(chan outcome, rowsAtOnce)}
}

// run does commands until ctx ends, and then sees through what is under way.
func (p *pass) run(ctx, until context.Context, bell <-chan struct{}) error {
	calls, cancel := context.WithCancel(until)
	defer p.running.Wait()
	defer cancel() // what a failure leaves is done again later
	poll := time.NewTimer(0)
	defer poll.Stop()
	look := true
	for {
		if ctx.Err() != nil {
			return p.end(calls)
		}
		look = look || p.more
		if look && len(p.rows) < rowsAtOnce && p.bytes < bytesAtOnce {
			n, err := p.fetch(ctx, calls)
			if err != nil && ctx.Err() == nil {
				return err
			}
			look, p.more = n > 0, false
			p.watch.rows += n
		}
		if look && len(p.rows) < rowsAtOnce && p.bytes < bytesAtOnce {
			select { // there may be more
			case o := <-p.outcomes:
				if err := p.takeOn(ctx, calls, o); err != nil {
					return err
				}
			default:
			}
			continue
		}
		select {
		case o := <-p.outcomes:
			if err := p.takeOn(ctx, calls, o); err != nil {
				return err
			}
		case <-bell:
			look = true
		case <-poll.C:
			look = true
			if err := p.watch.step(ctx); err != nil && ctx.Err() == nil {
				return err
			}
			poll.Reset(p.watch.every())
		case <-ctx.Done():
			return p.end(calls)
		}
	}
}

// end sees through what is under way. Rows that only follow are left to who reads next.
func (p *pass) end(calls context.Context) error {
	for key := range p.names {
		p.drop(key)
	}
	over := time.NewTimer(seeThrough)
	defer over.Stop()
	for len(p.rows) > 0 {
		select {
		case o := <-p.outcomes:
			within, cancel := context.WithTimeout(calls, pingWithin)
			err := p.take(within, calls, o)
			cancel()
			if err != nil {
				return err
			}
		case <-over.C:
			return nil
		case <-calls.Done():
			return nil
		}
	}
	return nil
}

// fetch reads rows and starts them. It returns how many it has dealt with.
func (p *pass) fetch(ctx, calls context.Context) (n int, err error) {
	for _, sql := range []string{dueSQL, freshSQL} {
		most, bytes := rowsAtOnce-len(p.rows), bytesAtOnce-p.bytes
		if sql == dueSQL { // what hangs again and again leaves half of the room to what was not tried yet
			most, bytes = min(most, rowsAtOnce/2-p.parked.rows), min(bytes, bytesAtOnce/2-p.parked.bytes)
		}
		if most <= 0 || bytes <= 0 {
			continue
		}
		under := slices.AppendSeq(make([]int64, 0, len(p.rows)), maps.Keys(p.rows))
		rows, behind, err := find(ctx, p.pool, sql, under, most, bytes)
		if err != nil {
			return n, err
		}
		n += len(rows) + len(behind.seqs)
		for _, r := range rows {
			p.add(calls, r)
		}
		if len(behind.seqs) > 0 {
			if err := park(ctx, p.pool, behind); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// add takes a row into memory, and starts it if it is the first one of its name.
func (p *pass) add(calls context.Context, r *row) {
	p.rows[r.Seq] = struct{}{}
	p.bytes += r.bytes()
	if r.parked {
		p.parked.rows++
		p.parked.bytes += r.bytes()
	}
	if queue, busy := p.names[r.key()]; busy {
		p.names[r.key()] = append(queue, r)
		return
	}
	p.names[r.key()] = nil
	p.start(calls, r)
}

// start has a command done.
func (p *pass) start(ctx context.Context, r *row) {
	p.running.Go(func() { p.outcomes <- p.reader.do(ctx, r) })
}

// takeOn is take that has pingWithin left when ctx ends: what is done is recorded.
func (p *pass) takeOn(ctx, calls context.Context, o outcome) error {
	within, cancel := context.WithCancel(calls)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(pingWithin):
			cancel()
		case <-within.Done():
		}
	})
	defer stop()
	return p.take(within, calls, o)
}

// take records an outcome, and with it those that are there by now, and goes on with the rows that follow.
func (p *pass) take(ctx, calls context.Context, first outcome) error {
	all := []outcome{first}
	for more := true; more; {
		select {
		case o := <-p.outcomes:
			all = append(all, o)
		default:
			more = false
		}
	}
	var count struct{ done, rejected int }
	var refusals []carillon.Key // names of refused commands
	kept := all[:0]
	for _, o := range all {
		key := o.row.key()
		again := o.err != nil && !o.refused
		switch {
		case again: // what follows must not go before it
			p.drop(key)
			delete(p.names, key)
		case o.err != nil: // nor before it is certain that the refused one does not come again
			refusals = append(refusals, key)
		default:
			p.next(calls, key)
		}
		switch {
		case o.err == nil:
			count.done++
		case o.refused:
			count.rejected++
			p.reader.tell(&o, "a command of an outbox is refused: see carillon outbox rejects")
		case o.row.RefusedFor < 0 && refusal(o.err) == mayPass:
			p.reader.tell(&o, "a command of an outbox is refused at present, and tried again")
		}
		if !errors.Is(o.err, errLate) {
			kept = append(kept, o)
		} else {
			p.release(o.row)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	if err := settle(ctx, p.pool, kept); err != nil {
		return err
	}
	for _, o := range kept { // now they are not read again
		p.release(o.row)
		p.more = p.more || o.row.parked && (o.err == nil || o.refused)
	}
	for _, key := range refusals {
		p.next(calls, key)
	}
	p.reader.o.Done(count.done)
	p.reader.o.Rejected(count.rejected)
	return nil
}

// next starts the row that follows the one of a name that has ended.
func (p *pass) next(calls context.Context, key carillon.Key) {
	if len(p.names[key]) == 0 {
		delete(p.names, key)
		return
	}
	row := p.names[key][0]
	p.names[key] = p.names[key][1:]
	p.start(calls, row)
}

// drop leaves out the rows that follow the one under way.
func (p *pass) drop(key carillon.Key) {
	for _, r := range p.names[key] {
		p.release(r)
	}
	p.names[key] = nil
}

func (p *pass) release(r *row) {
	delete(p.rows, r.Seq)
	p.bytes -= r.bytes()
	if r.parked {
		p.parked.rows--
		p.parked.bytes -= r.bytes()
	}
}

// errLate is why a row is read again: it has waited in memory for too long.
var errLate = errors.New("the row was read too long ago")

// do has the command of a row done.
func (r *Reader) do(ctx context.Context, from *row) outcome {
	ctx, cancel := context.WithDeadline(ctx, from.read.Add(callWithin))
	defer cancel()
	if from.Tries%fullEvery != 0 {
		ctx, cancel = context.WithTimeout(ctx, againWithin)
		defer cancel()
	}
	// The wall clock too: the other one stands still while the machine is suspended.
	if age := time.Now().Round(0).Sub(from.read.Round(0)); ctx.Err() != nil || age < 0 || age > callWithin {
		return outcome{row: from, err: errLate}
	}
	c := message.Command{Request: from.request(), Key: from.key(), SeenAt: from.GivenAt}
	err := r.ask(ctx, c, from.Job)
	if v := refusal(err); v == unknown || v == mayPass && from.RefusedFor < time.Duration(r.patience.Load()) {
		return outcome{row: from, err: err}
	}
	// Who has read the row too may ask for it later, and might find that it can be done by then, when the next
	// one of its name is done. So it is refused for good, unless it is done.
	c.Refusal = carillonError(err)
	before, decided := r.o.Do(ctx, c)
	switch {
	case before:
		return outcome{row: from}
	case decided == nil, refusal(decided) == forGood && c.Key.Validate() != nil: // no partition can have done it
		return outcome{row: from, err: err, refused: true}
	case refusal(decided) == unknown:
		return outcome{row: from, err: decided}
	}
	return outcome{row: from, err: decided, refused: true} // another one was first, and may have another reason
}

// ask has a command done once.
func (r *Reader) ask(ctx context.Context, c message.Command, job *string) error {
	if job != nil {
		j, err := decode(*job)
		if err != nil {
			return err
		}
		j.Namespace, j.Name = c.Key.Namespace, c.Key.Name
		c.Job = &j
	}
	_, err := r.o.Do(ctx, c)
	return err
}

// decode reads a job as REST does.
func decode(text string) (carillon.Job, error) {
	var m pb.Job
	if _, err := httpapi.Unmarshal([]byte(text), &m); err != nil {
		return carillon.Job{}, err
	}
	return wire.JobFromProto(&m)
}

// tell logs what became of a command.
func (r *Reader) tell(o *outcome, what string) {
	r.o.Log.Warn(what, "outbox", r.o.Name, "id", o.row.ID, "job", o.row.key().String(), "error", o.err)
}
