package codec

import (
	"encoding/binary"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// AppendBackfill appends the backfill's bytes to b.
func AppendBackfill(b []byte, f *store.Backfill) []byte {
	w := writer{b: b}
	w.texts(1, f.Key.Namespace, f.Key.Name)
	w.uid(2, f.UID)
	w.uint(3, f.Seq)
	w.string(4, f.Schedule)
	w.string(5, f.TimeZone)
	w.uint(6, uint64(f.DST))
	w.nanos(7, f.Anchor)
	w.nanos(8, f.From)
	w.nanos(9, f.To)
	w.uint(10, uint64(f.Overlap))
	w.float(11, f.Rate)
	w.uint(12, uint64(f.Status))
	w.uint(13, f.Total)
	w.uint(14, f.Begun)
	w.uint(15, f.Succeeded)
	w.uint(16, f.Failed)
	w.nanos(17, f.Next)
	w.nanos(18, f.Earliest)
	w.uints(19, f.Open)
	w.nanos(20, f.Created)
	w.nanos(21, f.Finished)
	w.nanos(22, f.Expires)
	return w.b
}

// DecodeBackfill decodes what AppendBackfill wrote. Nothing aliases b.
func DecodeBackfill(b []byte) (store.Backfill, error) {
	var f store.Backfill
	r := reader{b: b}
	for r.next() {
		switch r.field {
		case 1:
			r.check(decodeTexts(r.bytes(), &f.Key.Namespace, &f.Key.Name))
		case 2:
			f.UID = r.uid()
		case 3:
			f.Seq = r.uint()
		case 4:
			f.Schedule = r.string()
		case 5:
			f.TimeZone = r.string()
		case 6:
			f.DST = carillon.DST(r.enum())
		case 7:
			f.Anchor = r.nanos()
		case 8:
			f.From = r.nanos()
		case 9:
			f.To = r.nanos()
		case 10:
			f.Overlap = carillon.Overlap(r.enum())
		case 11:
			f.Rate = r.float()
		case 12:
			f.Status = carillon.BackfillStatus(r.enum())
		case 13:
			f.Total = r.uint()
		case 14:
			f.Begun = r.uint()
		case 15:
			f.Succeeded = r.uint()
		case 16:
			f.Failed = r.uint()
		case 17:
			f.Next = r.nanos()
		case 18:
			f.Earliest = r.nanos()
		case 19:
			f.Open = r.uints(f.Open)
		case 20:
			f.Created = r.nanos()
		case 21:
			f.Finished = r.nanos()
		case 22:
			f.Expires = r.nanos()
		default:
			r.skip()
		}
	}
	if r.err != nil {
		return store.Backfill{}, damaged("backfill", r.err)
	}
	return f, nil
}

// uints writes a repeated uint64, packed.
func (w *writer) uints(field int, list []uint64) {
	if len(list) == 0 {
		return
	}
	at := w.begin(field)
	for _, v := range list {
		w.b = binary.AppendUvarint(w.b, v)
	}
	w.end(at)
}

// uints appends the values of a packed repeated uint64 to list.
func (r *reader) uints(list []uint64) []uint64 {
	in := reader{b: r.bytes(), field: r.field}
	for in.err == nil && len(in.b) > 0 {
		if v := in.varint(); in.err == nil {
			list = append(list, v)
		}
	}
	r.check(in.err)
	return list
}
