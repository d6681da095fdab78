package codec

import "github.com/carillonhq/carillon"

// EncodeCalendar encodes a calendar, without its namespace and name. The result is never nil.
func EncodeCalendar(cal *carillon.Calendar) []byte {
	c := coder{b: []byte{}, writing: true}
	c.calendar(cal)
	return c.b
}

// DecodeCalendar decodes what EncodeCalendar wrote.
func DecodeCalendar(b []byte, key carillon.Key) (carillon.Calendar, error) {
	cal := carillon.Calendar{Namespace: key.Namespace, Name: key.Name}
	c := coder{b: b}
	if c.calendar(&cal); c.err != nil {
		return carillon.Calendar{}, damaged("calendar "+key.String(), c.err)
	}
	return cal, nil
}

func (c *coder) calendar(cal *carillon.Calendar) {
	for at := message(0); c.within(&at); {
		c.string(1, &cal.TimeZone)
		c.strings(2, &cal.Dates)
		c.string(3, &cal.Note)
		unsigned(c, 4, &cal.Generation)
	}
}
