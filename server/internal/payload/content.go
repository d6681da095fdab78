package payload

import (
	"context"
	"sync/atomic"
)

// content is a reader whose outcome is counted.
type content struct {
	store  *Store
	ctx    context.Context // of the caller
	from   *verified
	err    error
	closed atomic.Bool
}

// Read implements [io.Reader].
func (c *content) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.from.Read(p)
	switch {
	case atEnd(err):
	case err != nil && (c.closed.Load() || c.ctx.Err() != nil): // that is why
		c.err = unavailable(err)
		return n, c.err
	case err != nil:
		c.err = c.store.failed(err)
		return n, c.err
	case c.from.left == 0:
		c.store.countGot(Done)
		if c.store.pause.succeeded() {
			c.store.o.Log.Info("payloads can be read again")
		}
	}
	return n, err
}

// Close implements [io.Closer].
func (c *content) Close() error {
	c.closed.Store(true)
	return c.from.Close()
}
