package codec

import (
	"math"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// AppendState appends the encoded state to b.
func AppendState(b []byte, s *store.State) []byte {
	w := writer{b: b}
	w.uid(1, s.UID)
	w.uint(2, s.Generation)
	w.nanos(3, s.Created)
	w.nanos(4, s.Updated)
	w.uint(5, uint64(s.Phase))
	w.uint(6, uint64(s.Priority))
	w.nanos(7, s.Due)
	w.string(8, s.Queue)
	w.nanos(9, s.Anchor)
	w.nanos(10, s.Expires)
	w.nanos(11, s.Next)
	w.uint(12, s.Begun)
	w.uint(13, s.Triggers)
	w.runState(14, &s.Run)
	w.lastRun(15, &s.Last)
	w.counters(16, &s.Counters)
	w.uint(17, uint64(s.Kept))
	w.bool(18, s.Paused)
	w.sint(19, s.Jitter)
	w.uint(20, uint64(s.Pending))
	w.uint(21, uint64(s.Backfills))
	w.waits(22, s.Waits)
	w.bool(23, s.OwnSpec)
	w.uint(24, s.Settled)
	return w.b
}

// DecodeState decodes what AppendState wrote. Nothing aliases b.
func DecodeState(b []byte) (store.State, error) {
	var s store.State
	r := reader{b: b}
	for r.next() {
		switch r.field {
		case 1:
			s.UID = r.uid()
		case 2:
			s.Generation = r.uint()
		case 3:
			s.Created = r.nanos()
		case 4:
			s.Updated = r.nanos()
		case 5:
			s.Phase = carillon.Phase(r.enum())
		case 6:
			s.Priority = r.enum()
		case 7:
			s.Due = r.nanos()
		case 8:
			s.Queue = r.string()
		case 9:
			s.Anchor = r.nanos()
		case 10:
			s.Expires = r.nanos()
		case 11:
			s.Next = r.nanos()
		case 12:
			s.Begun = r.uint()
		case 13:
			s.Triggers = r.uint()
		case 14:
			r.check(decodeRunState(&s.Run, r.bytes()))
		case 15:
			r.check(decodeLastRun(&s.Last, r.bytes()))
		case 16:
			r.check(decodeCounters(&s.Counters, r.bytes()))
		case 17:
			s.Kept = uint32(r.upTo(math.MaxUint32))
		case 18:
			s.Paused = r.bool()
		case 19:
			s.Jitter = r.sint()
		case 20:
			s.Pending = uint32(r.upTo(math.MaxUint32))
		case 21:
			s.Backfills = uint32(r.upTo(math.MaxUint32))
		case 22:
			s.Waits = r.wait(s.Waits)
		case 23:
			s.OwnSpec = r.bool()
		case 24:
			s.Settled = r.uint()
		default:
			r.skip()
		}
	}
	if r.err != nil {
		return store.State{}, damaged("state", r.err)
	}
	return s, nil
}

func (w *writer) runState(field int, s *store.RunState) {
	at := w.begin(field)
	w.bool(1, s.Live)
	w.nanos(2, s.Scheduled)
	w.nanos(3, s.Due)
	w.uint(4, uint64(s.Cause))
	w.uint(5, s.Seq)
	w.sint(6, int64(s.Attempt))
	w.grant(7, &s.Grant)
	w.nanos(8, s.Lease)
	w.nanos(9, s.Deadline)
	w.nanos(10, s.Started)
	w.attemptErrors(11, s.Errors)
	w.sint(12, int64(s.Uncounted))
	w.bool(13, s.Limited)
	w.float(14, s.Percent)
	w.string(15, s.Message)
	w.nanos(16, s.ReportedAt)
	w.bool(17, s.Kept)
	w.grant(18, &s.Doubt)
	w.sint(19, int64(s.InDoubt))
	w.endOrDrop(at)
}

func decodeRunState(s *store.RunState, b []byte) error {
	r := reader{b: b}
	for r.next() {
		switch r.field {
		case 1:
			s.Live = r.bool()
		case 2:
			s.Scheduled = r.nanos()
		case 3:
			s.Due = r.nanos()
		case 4:
			s.Cause = carillon.Cause(r.enum())
		case 5:
			s.Seq = r.uint()
		case 6:
			s.Attempt = r.int()
		case 7:
			r.check(decodeGrant(&s.Grant, r.bytes()))
		case 8:
			s.Lease = r.nanos()
		case 9:
			s.Deadline = r.nanos()
		case 10:
			s.Started = r.nanos()
		case 11:
			s.Errors = r.attemptError(s.Errors)
		case 12:
			s.Uncounted = r.int()
		case 13:
			s.Limited = r.bool()
		case 14:
			s.Percent = r.float()
		case 15:
			s.Message = r.string()
		case 16:
			s.ReportedAt = r.nanos()
		case 17:
			s.Kept = r.bool()
		case 18:
			r.check(decodeGrant(&s.Doubt, r.bytes()))
		case 19:
			s.InDoubt = r.int()
		default:
			r.skip()
		}
	}
	return r.err
}

func (w *writer) grant(field int, g *store.Grant) {
	at := w.begin(field)
	w.uint(1, g.Term.Epoch)
	w.fixed(2, g.Term.Nonce)
	w.uint(3, g.Generation)
	w.endOrDrop(at)
}

func decodeGrant(g *store.Grant, b []byte) error {
	r := reader{b: b}
	for r.next() {
		switch r.field {
		case 1:
			g.Term.Epoch = r.uint()
		case 2:
			g.Term.Nonce = r.fixed()
		case 3:
			g.Generation = r.uint()
		default:
			r.skip()
		}
	}
	return r.err
}

func (w *writer) lastRun(field int, l *store.LastRun) {
	at := w.begin(field)
	w.nanos(1, l.Scheduled)
	w.nanos(2, l.Finished)
	w.uint(3, uint64(l.Cause))
	w.uint(4, l.Seq)
	w.sint(5, int64(l.Attempt))
	w.uint(6, uint64(l.Status))
	w.endOrDrop(at)
}

func decodeLastRun(l *store.LastRun, b []byte) error {
	r := reader{b: b}
	for r.next() {
		switch r.field {
		case 1:
			l.Scheduled = r.nanos()
		case 2:
			l.Finished = r.nanos()
		case 3:
			l.Cause = carillon.Cause(r.enum())
		case 4:
			l.Seq = r.uint()
		case 5:
			l.Attempt = r.int()
		case 6:
			l.Status = carillon.RunStatus(r.enum())
		default:
			r.skip()
		}
	}
	return r.err
}

func (w *writer) counters(field int, c *carillon.Counters) {
	at := w.begin(field)
	for i, n := range [...]uint64{c.Fired, c.Succeeded, c.Failed, c.Retried, c.Dead, c.Skipped, c.Late,
		c.Dropped, c.Cancelled} {
		w.uint(i+1, n)
	}
	w.endOrDrop(at)
}

func decodeCounters(c *carillon.Counters, b []byte) error {
	into := [...]*uint64{&c.Fired, &c.Succeeded, &c.Failed, &c.Retried, &c.Dead, &c.Skipped, &c.Late,
		&c.Dropped, &c.Cancelled}
	r := reader{b: b}
	for r.next() {
		if r.field <= len(into) {
			*into[r.field-1] = r.uint()
		} else {
			r.skip()
		}
	}
	return r.err
}

func (w *writer) waits(field int, list []store.Wait) {
	for i := range list {
		at := w.begin(field)
		w.string(1, list[i].Name)
		w.identity(2, &list[i].By)
		w.bool(3, list[i].Open)
		w.uint(4, list[i].Told)
		w.nanos(5, list[i].Since)
		w.end(at)
	}
}

func (r *reader) wait(list []store.Wait) []store.Wait {
	var v store.Wait
	in := reader{b: r.bytes()}
	for in.next() {
		switch in.field {
		case 1:
			v.Name = in.string()
		case 2:
			in.check(decodeIdentity(&v.By, in.bytes()))
		case 3:
			v.Open = in.bool()
		case 4:
			v.Told = in.uint()
		case 5:
			v.Since = in.nanos()
		default:
			in.skip()
		}
	}
	r.check(in.err)
	return append(list, v)
}
