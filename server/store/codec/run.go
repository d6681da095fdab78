package codec

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// AppendRun appends the encoded run to b: everything but Cursor.
func AppendRun(b []byte, r *store.RunRecord) []byte {
	c := coder{b: b, writing: true}
	c.run(r)
	return c.b
}

// DecodeRun decodes what AppendRun wrote. Response and Spec alias b; everything else is copied.
func DecodeRun(b []byte) (store.RunRecord, error) {
	var r store.RunRecord
	c := coder{b: b}
	if c.run(&r); c.err != nil {
		return store.RunRecord{}, damaged("run", c.err)
	}
	return r, nil
}

func (c *coder) run(r *store.RunRecord) {
	for at := message(0); c.within(&at); {
		c.texts(1, &r.Key.Namespace, &r.Key.Name)
		c.identity(2, &r.ID)
		c.grant(3, &r.Grant)
		unsigned(c, 4, &r.Status)
		c.nanos(5, &r.Due)
		c.nanos(6, &r.Started)
		c.nanos(7, &r.Finished)
		signed(c, 8, &r.Attempt)
		c.attemptErrors(9, &r.Errors)
		c.bytes(10, &r.Response)
		c.string(11, &r.Worker)
		c.string(12, &r.Reason)
		unsigned(c, 13, &r.Skipped)
		c.nanos(14, &r.From)
		c.bytes(15, &r.Spec)
		c.nanos(16, &r.Expires)
		signed(c, 17, &r.InDoubt)
		c.string(18, &r.Queue)
		c.stringMap(19, &r.Labels)
		c.string(20, &r.Trace)
		c.bool(21, &r.Sealed)
	}
}

func (c *coder) identity(field int, id *store.RunID) {
	for at := message(field); c.within(&at); {
		unsigned(c, 1, &id.Partition)
		c.uid(2, &id.UID)
		c.nanos(3, &id.Scheduled)
		unsigned(c, 4, &id.Cause)
		unsigned(c, 5, &id.Seq)
	}
}

func (c *coder) attemptErrors(field int, list *[]carillon.AttemptError) {
	for e := range each(c, field, list) {
		for at := item(field); c.within(&at); {
			signed(c, 1, &e.Attempt)
			c.time(2, &e.At)
			c.string(3, &e.Message)
			c.bool(4, &e.Redriven)
		}
	}
}
