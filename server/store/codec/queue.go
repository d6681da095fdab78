package codec

import "github.com/carillonhq/carillon"

// EncodeQueuePause encodes the pause of a queue. The result is never nil.
func EncodeQueuePause(p *carillon.QueuePause) []byte {
	c := coder{b: []byte{}, writing: true}
	c.queuePause(p)
	return c.b
}

// DecodeQueuePause decodes what EncodeQueuePause wrote.
func DecodeQueuePause(b []byte) (carillon.QueuePause, error) {
	var p carillon.QueuePause
	c := coder{b: b}
	if c.queuePause(&p); c.err != nil {
		return carillon.QueuePause{}, damaged("pause of a queue", c.err)
	}
	return p, nil
}

func (c *coder) queuePause(p *carillon.QueuePause) {
	for at := message(0); c.within(&at); {
		c.time(1, &p.Since)
		c.string(2, &p.Note)
	}
}
