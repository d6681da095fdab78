package codec

import (
	"github.com/carillonhq/carillon"
)

// EncodeSpec encodes a job as its author wrote it: everything but its name, which is the record's, and its
// status. Equal jobs have equal bytes, and an empty map, list or payload is the same as none, so that
// comparing bytes tells whether a put changes anything.
func EncodeSpec(j *carillon.Job) []byte {
	w := writer{b: make([]byte, 0, specSize(j))}
	w.string(1, j.Schedule)
	w.string(2, j.TimeZone)
	w.uint(3, uint64(j.DST))
	w.string(4, j.Due.String())
	w.uint(5, j.Repeats)
	w.string(6, j.TTL.String())
	w.sint(7, int64(j.Jitter))
	w.target(8, &j.Target)
	w.bytes(9, j.Data.Bytes)
	w.string(10, j.Data.ContentType)
	w.failurePolicy(11, &j.FailurePolicy)
	w.sint(12, int64(j.Timeout))
	w.sint(13, int64(j.Lease))
	w.uint(14, uint64(j.Overlap))
	w.uint(15, uint64(j.Misfire.Rule))
	w.sint(16, int64(j.Misfire.Limit))
	w.sint(17, int64(j.Misfire.Window))
	w.uint(18, uint64(j.Priority))
	w.string(19, j.ConcurrencyKey)
	w.strings(20, j.DependsOn)
	w.bool(21, j.Paused)
	w.string(22, j.Note)
	w.history(23, &j.History)
	w.stringMap(24, j.Metadata)
	w.stringMap(specLabels, j.Labels)
	return w.b
}

// specLabels is the number of Spec.labels.
const specLabels = 25

// DecodeSpec decodes what EncodeSpec wrote. The job's Data.Bytes alias b; everything else is copied.
func DecodeSpec(b []byte, key carillon.Key) (carillon.Job, error) {
	j := carillon.Job{Namespace: key.Namespace, Name: key.Name}
	r := reader{b: b}
	var data []byte
	var contentType string
	for r.next() {
		switch r.field {
		case 1:
			j.Schedule = r.string()
		case 2:
			j.TimeZone = r.string()
		case 3:
			j.DST = carillon.DST(r.enum())
		case 4:
			j.Due = carillon.WhenText(r.string())
		case 5:
			j.Repeats = r.uint()
		case 6:
			j.TTL = carillon.WhenText(r.string())
		case 7:
			j.Jitter = r.duration()
		case 8:
			r.check(decodeTarget(&j.Target, r.bytes()))
		case 9:
			data = r.bytes()
		case 10:
			contentType = r.string()
		case 11:
			r.check(decodeFailurePolicy(&j.FailurePolicy, r.bytes()))
		case 12:
			j.Timeout = r.duration()
		case 13:
			j.Lease = r.duration()
		case 14:
			j.Overlap = carillon.Overlap(r.enum())
		case 15:
			j.Misfire.Rule = carillon.MisfireRule(r.enum())
		case 16:
			j.Misfire.Limit = r.int()
		case 17:
			j.Misfire.Window = r.duration()
		case 18:
			j.Priority = carillon.Priority(r.enum())
		case 19:
			j.ConcurrencyKey = r.string()
		case 20:
			j.DependsOn = append(j.DependsOn, r.string())
		case 21:
			j.Paused = r.bool()
		case 22:
			j.Note = r.string()
		case 23:
			r.check(decodeHistory(&j.History, r.bytes()))
		case 24:
			j.Metadata = r.entry(j.Metadata)
		case specLabels:
			j.Labels = r.entry(j.Labels)
		default:
			r.skip()
		}
	}
	if r.err != nil {
		return carillon.Job{}, damaged("spec of "+key.String(), r.err)
	}
	j.Data = carillon.Bytes(data, contentType)
	return j, nil
}

// specSize estimates the length of the job's spec, rather too much than too little.
func specSize(j *carillon.Job) int {
	const numbers, perString, perEntry = 96, 4, 8
	n := numbers + len(j.Schedule) + len(j.TimeZone) + len(j.Due.String()) + len(j.TTL.String()) +
		len(j.Data.Bytes) +
		len(j.Data.ContentType) + len(j.FailurePolicy.Schedule) + len(j.ConcurrencyKey) + len(j.Note) +
		targetSize(&j.Target)
	for _, s := range j.DependsOn {
		n += perString + len(s)
	}
	for _, m := range [...]map[string]string{j.Metadata, j.Labels} {
		for k, v := range m {
			n += perEntry + len(k) + len(v)
		}
	}
	return n
}
