package codec

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
)

// EncodeKey encodes an API key, without its id. The result is never nil.
func EncodeKey(k *access.Key) []byte {
	c := coder{b: []byte{}, writing: true}
	c.key(k)
	return c.b
}

// DecodeKey decodes what EncodeKey wrote.
func DecodeKey(b []byte, id string) (access.Key, error) {
	k := access.Key{AccessKey: carillon.AccessKey{ID: id}}
	c := coder{b: b}
	if c.key(&k); c.err != nil {
		return access.Key{}, damaged("API key "+id, c.err)
	}
	return k, nil
}

func (c *coder) key(k *access.Key) {
	for at := message(0); c.within(&at); {
		hash(c, 1, &k.Hash)
		for g := range each(c, 2, &k.Grants) {
			c.accessGrant(2, g)
		}
		c.string(3, &k.Note)
		c.string(4, &k.Creator)
		c.time(5, &k.Created)
		c.time(6, &k.Expires)
		c.time(7, &k.LastUsed)
		hash(c, 8, &k.Before)
		c.time(9, &k.OverlapEnds)
		c.time(10, &k.Rotated)
		c.string(11, &k.Rotator)
	}
}

// hash is the hash of a secret, left out if it is zero.
func hash(c *coder, field int, h *access.Hash) {
	switch {
	case c.writing && *h != (access.Hash{}):
		write(c, field, h[:])
	case !c.writing && c.next(field, wireBytes):
		raw := c.body()
		if len(raw) != len(h) {
			c.fail(errRange)
		}
		copy(h[:], raw)
	}
}

func (c *coder) accessGrant(field int, g *carillon.AccessGrant) {
	for at := item(field); c.within(&at); {
		c.string(1, (*string)(&g.Role))
		c.strings(2, &g.Namespaces)
		c.strings(3, &g.Queues)
	}
}
