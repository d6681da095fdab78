package codec

import (
	"encoding/binary"

	"github.com/carillonhq/carillon/server/store"
)

// AppendBackfill appends the backfill's bytes to b.
func AppendBackfill(b []byte, f *store.Backfill) []byte {
	c := coder{b: b, writing: true}
	c.backfill(f)
	return c.b
}

// DecodeBackfill decodes what AppendBackfill wrote. Nothing aliases b.
func DecodeBackfill(b []byte) (store.Backfill, error) {
	var f store.Backfill
	c := coder{b: b}
	if c.backfill(&f); c.err != nil {
		return store.Backfill{}, damaged("backfill", c.err)
	}
	return f, nil
}

func (c *coder) backfill(f *store.Backfill) {
	for at := message(0); c.within(&at); {
		c.texts(1, &f.Key.Namespace, &f.Key.Name)
		c.uid(2, &f.UID)
		unsigned(c, 3, &f.Seq)
		c.string(4, &f.Schedule)
		c.string(5, &f.TimeZone)
		unsigned(c, 6, &f.DST)
		c.nanos(7, &f.Anchor)
		c.nanos(8, &f.From)
		c.nanos(9, &f.To)
		unsigned(c, 10, &f.Overlap)
		c.float(11, &f.Rate)
		unsigned(c, 12, &f.Status)
		unsigned(c, 13, &f.Total)
		unsigned(c, 14, &f.Begun)
		unsigned(c, 15, &f.Succeeded)
		unsigned(c, 16, &f.Failed)
		c.nanos(17, &f.Next)
		c.nanos(18, &f.Earliest)
		c.uints(19, &f.Open)
		c.nanos(20, &f.Created)
		c.nanos(21, &f.Finished)
		c.nanos(22, &f.Expires)
	}
}

// uints is a packed repeated uint64.
func (c *coder) uints(field int, list *[]uint64) {
	switch {
	case !c.writing && c.next(field, wireBytes):
		in := coder{b: c.body(), field: field}
		for in.err == nil && len(in.b) > 0 {
			*list = append(*list, in.varint())
		}
		if in.err != nil {
			c.fail(in.err)
		}
	case c.writing && len(*list) > 0:
		var packed []byte
		for _, v := range *list {
			packed = binary.AppendUvarint(packed, v)
		}
		write(c, field, packed)
	}
}
