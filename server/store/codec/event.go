package codec

import "github.com/carillonhq/carillon/server/store"

// AppendEvents appends the events' bytes to b.
func AppendEvents(b []byte, e *store.EventList) []byte {
	c := coder{b: b, writing: true}
	c.events(e)
	return c.b
}

// DecodeEvents decodes what AppendEvents wrote. Nothing aliases b.
func DecodeEvents(b []byte) (store.EventList, error) {
	var e store.EventList
	c := coder{b: b}
	if c.events(&e); c.err != nil {
		return store.EventList{}, damaged("events", c.err)
	}
	return e, nil
}

func (c *coder) events(list *store.EventList) {
	for at := message(0); c.within(&at); {
		for e := range each(c, 1, &list.List) {
			c.event(1, e)
		}
		c.bool(2, &list.Unrecorded)
	}
}

func (c *coder) event(field int, e *store.Event) {
	for at := item(field); c.within(&at); {
		c.string(1, (*string)(&e.Type))
		c.nanos(2, &e.Time)
		c.texts(3, &e.Key.Namespace, &e.Key.Name)
		unsigned(c, 4, &e.Generation)
		c.identity(5, &e.Run)
		signed(c, 6, &e.Attempt)
		c.string(7, &e.Reason)
		c.string(8, &e.Error)
		c.nanos(9, &e.RetryAt)
		unsigned(c, 10, &e.Skipped)
		c.nanos(11, &e.From)
		signed(c, 12, &e.Late)
		c.string(13, &e.Queue)
		c.string(14, &e.QueueKind)
		c.string(15, &e.Node)
		c.bool(16, &e.Sealed)
	}
}

// AppendWatched appends the record's bytes to b.
func AppendWatched(b []byte, w *store.Watched) []byte {
	c := coder{b: b, writing: true}
	c.watched(w)
	return c.b
}

// DecodeWatched decodes what AppendWatched wrote.
func DecodeWatched(b []byte) (store.Watched, error) {
	var w store.Watched
	c := coder{b: b}
	if c.watched(&w); c.err != nil {
		return store.Watched{}, damaged("watched", c.err)
	}
	return w, nil
}

func (c *coder) watched(w *store.Watched) {
	for at := message(0); c.within(&at); {
		c.nanos(1, &w.Until)
		unsigned(c, 2, &w.Last)
		unsigned(c, 3, &w.Floor)
		unsigned(c, 4, &w.Oldest)
		for m := range each(c, 5, &w.Marks) {
			for at := item(5); c.within(&at); {
				unsigned(c, 1, &m.Last)
				unsigned(c, 2, &m.Events)
				c.nanos(3, &m.Time)
			}
		}
		unsigned(c, 6, &w.Whole)
	}
}

// AppendTold appends the record's bytes to b.
func AppendTold(b []byte, t *store.Told) []byte {
	c := coder{b: b, writing: true}
	c.told(t)
	return c.b
}

// DecodeTold decodes what AppendTold wrote.
func DecodeTold(b []byte) (store.Told, error) {
	var t store.Told
	c := coder{b: b}
	if c.told(&t); c.err != nil {
		return store.Told{}, damaged("told", c.err)
	}
	return t, nil
}

func (c *coder) told(t *store.Told) {
	for at := message(0); c.within(&at); {
		unsigned(c, 1, &t.Nonce)
		c.bool(2, &t.Leaving)
		c.nanos(3, &t.Since)
	}
}
