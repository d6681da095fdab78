package brokertarget

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// errNoPayloads is why a node that has no payload store reads none.
var errNoPayloads = errors.New("this node has no payload store")

// read reads the payload of a delivery that does not come with it.
func (t *Transport) read(ctx context.Context, r *carillon.Run) ([]byte, error) {
	if t.options.Payloads == nil {
		return nil, errNoPayloads
	}
	from, err := t.options.Payloads.Get(ctx, r.Namespace, *r.Data.Ref)
	if err != nil {
		return nil, err
	}
	b := make([]byte, r.Data.Ref.Size)
	if _, err = io.ReadFull(from, b); err == nil {
		// whether these are the bytes, the reader says at their end
		if n, end := from.Read(make([]byte, 1)); n > 0 || (end != nil && !errors.Is(end, io.EOF)) {
			err = errors.Join(fmt.Errorf("it does not end after %d bytes", len(b)), end)
		}
	}
	return b, errors.Join(err, from.Close())
}

// unread is the report of an attempt whose payload could not be read. If that may pass, nothing was
// attempted: the run is put off, and its policy does not count it.
func (t *Transport) unread(ctx context.Context, err error) (r delivery.Report) {
	pause, passes := time.Minute, true
	if t.options.Payloads != nil {
		pause, passes = t.options.Payloads.PutOff(err)
	}
	if ctx.Err() != nil {
		passes = true // it took too long, or the node leaves
	}
	r.Message = clipped(fmt.Sprintf("its payload: %v", err))
	if !passes {
		return r // an outcome of zero is a failure
	}
	r.Outcome = carillon.OutcomeReschedule
	r.At = t.options.Now().Add(pause + rand.N(pause/2+1))
	return r
}
