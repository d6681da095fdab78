package codec

import (
	"bytes"

	"github.com/carillonhq/carillon"
)

// EncodeSpec encodes a job as its author wrote it: everything but its name, which is the record's, and its
// status. Equal jobs have equal bytes, and an empty map, list or payload is the same as none, so that
// comparing bytes tells whether a put changes anything.
func EncodeSpec(j *carillon.Job) []byte {
	const beside = 144 // what most specs have beside their payload
	c := coder{b: make([]byte, 0, beside+len(j.Data.Bytes)), writing: true}
	c.spec(j)
	if cap(c.b) > len(c.b)+beside { // it is kept in memory, where its length counts
		return bytes.Clone(c.b)
	}
	return c.b
}

// DecodeSpec decodes what EncodeSpec wrote. The job's Data.Bytes alias b; everything else is copied.
func DecodeSpec(b []byte, key carillon.Key) (carillon.Job, error) {
	j := carillon.Job{Namespace: key.Namespace, Name: key.Name}
	c := coder{b: b}
	if c.spec(&j); c.err != nil {
		return carillon.Job{}, damaged("spec of "+key.String(), c.err)
	}
	return j, nil
}

// specLabels is the number of Spec.labels.
const specLabels = 25

func (c *coder) spec(j *carillon.Job) {
	for at := message(0); c.within(&at); {
		c.string(1, &j.Schedule)
		c.string(2, &j.TimeZone)
		unsigned(c, 3, &j.Calendars.DST)
		c.when(4, &j.Due)
		unsigned(c, 5, &j.Repeats)
		c.when(6, &j.TTL)
		signed(c, 7, &j.Jitter)
		c.target(8, &j.Target)
		c.bytes(9, &j.Data.Bytes)
		c.string(10, &j.Data.ContentType)
		c.failurePolicy(11, &j.FailurePolicy)
		signed(c, 12, &j.Timeout)
		signed(c, 13, &j.Lease)
		unsigned(c, 14, &j.Overlap)
		unsigned(c, 15, &j.Misfire.Rule)
		signed(c, 16, &j.Misfire.Limit)
		signed(c, 17, &j.Misfire.Window)
		unsigned(c, 18, &j.Priority)
		c.string(19, &j.ConcurrencyKey)
		c.strings(20, &j.DependsOn)
		c.bool(21, &j.Paused)
		c.string(22, &j.Note)
		c.history(23, &j.History)
		c.stringMap(24, &j.Metadata)
		c.stringMap(specLabels, &j.Labels)
		c.strings(26, &j.Calendars.Except)
		c.strings(27, &j.Calendars.Only)
		c.payload(28, &j.Data.Ref)
		refuseSealed(c, specSealed)
	}
}

// payload is where the data is, if it is not in the spec.
func (c *coder) payload(field int, ref **carillon.PayloadRef) {
	if c.writing && *ref == nil || !c.writing && !c.next(field, wireBytes) {
		return
	}
	if !c.writing {
		*ref = new(carillon.PayloadRef)
	}
	r := *ref
	sum := r.SHA256[:]
	for at := item(field); c.within(&at); {
		signed(c, 1, &r.Day)
		c.bytes(2, &sum)
		signed(c, 3, &r.Size)
	}
	if len(sum) != len(r.SHA256) {
		c.fail(errRange)
		return
	}
	r.SHA256 = [len(r.SHA256)]byte(sum)
}
