package codec

import (
	"math"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// AppendRun appends the encoded run to b: everything but Cursor.
func AppendRun(b []byte, r *store.RunRecord) []byte {
	w := writer{b: b}
	w.texts(1, r.Key.Namespace, r.Key.Name)
	w.identity(2, &r.ID)
	w.grant(3, &r.Grant)
	w.uint(4, uint64(r.Status))
	w.nanos(5, r.Due)
	w.nanos(6, r.Started)
	w.nanos(7, r.Finished)
	w.sint(8, int64(r.Attempt))
	w.attemptErrors(9, r.Errors)
	w.bytes(10, r.Response)
	w.string(11, r.Worker)
	w.string(12, r.Reason)
	w.uint(13, r.Skipped)
	w.nanos(14, r.From)
	w.bytes(15, r.Spec)
	w.nanos(16, r.Expires)
	w.sint(17, int64(r.InDoubt))
	return w.b
}

// DecodeRun decodes what AppendRun wrote. Response and Spec alias b; everything else is copied.
func DecodeRun(b []byte) (store.RunRecord, error) {
	var run store.RunRecord
	r := reader{b: b}
	for r.next() {
		switch r.field {
		case 1:
			r.check(decodeTexts(r.bytes(), &run.Key.Namespace, &run.Key.Name))
		case 2:
			r.check(decodeIdentity(&run.ID, r.bytes()))
		case 3:
			r.check(decodeGrant(&run.Grant, r.bytes()))
		case 4:
			run.Status = carillon.RunStatus(r.enum())
		case 5:
			run.Due = r.nanos()
		case 6:
			run.Started = r.nanos()
		case 7:
			run.Finished = r.nanos()
		case 8:
			run.Attempt = r.int()
		case 9:
			run.Errors = r.attemptError(run.Errors)
		case 10:
			run.Response = r.bytes()
		case 11:
			run.Worker = r.string()
		case 12:
			run.Reason = r.string()
		case 13:
			run.Skipped = r.uint()
		case 14:
			run.From = r.nanos()
		case 15:
			run.Spec = r.bytes()
		case 16:
			run.Expires = r.nanos()
		case 17:
			run.InDoubt = r.int()
		default:
			r.skip()
		}
	}
	if r.err != nil {
		return store.RunRecord{}, damaged("run", r.err)
	}
	return run, nil
}

func (w *writer) identity(field int, id *store.RunID) {
	at := w.begin(field)
	w.uint(1, uint64(id.Partition))
	w.uid(2, id.UID)
	w.nanos(3, id.Scheduled)
	w.uint(4, uint64(id.Cause))
	w.uint(5, id.Seq)
	w.endOrDrop(at)
}

func decodeIdentity(id *store.RunID, b []byte) error {
	r := reader{b: b}
	for r.next() {
		switch r.field {
		case 1:
			id.Partition = uint16(r.upTo(math.MaxUint16))
		case 2:
			id.UID = r.uid()
		case 3:
			id.Scheduled = r.nanos()
		case 4:
			id.Cause = carillon.Cause(r.enum())
		case 5:
			id.Seq = r.uint()
		default:
			r.skip()
		}
	}
	return r.err
}

func (w *writer) attemptErrors(field int, list []carillon.AttemptError) {
	for i := range list {
		at := w.begin(field)
		w.sint(1, int64(list[i].Attempt))
		w.time(2, list[i].At)
		w.string(3, list[i].Message)
		w.bool(4, list[i].Redriven)
		w.end(at)
	}
}

// attemptError reads one more AttemptError of a repeated field.
func (r *reader) attemptError(list []carillon.AttemptError) []carillon.AttemptError {
	var e carillon.AttemptError
	in := reader{b: r.bytes()}
	for in.next() {
		switch in.field {
		case 1:
			e.Attempt = in.int()
		case 2:
			e.At = in.time()
		case 3:
			e.Message = in.string()
		case 4:
			e.Redriven = in.bool()
		default:
			in.skip()
		}
	}
	r.check(in.err)
	return append(list, e)
}
