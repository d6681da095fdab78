package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
)

// payloads is a [carillon.Work] that also returns the payloads that runs refer to. Clients and embedded
// schedulers do.
type payloads interface {
	GetPayload(ctx context.Context, namespace string, ref carillon.PayloadRef) (io.ReadCloser, error)
}

// Pauses of a run whose payload cannot be read at present: they grow while none can.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// stored reads payloads that do not come with their runs.
type stored struct {
	from   payloads     // nil: the worker's scheduler has none
	failed atomic.Int32 // reads in a row
}

// putOff is the outcome of an attempt whose payload cannot be read at present: the run is attempted again,
// and its failure policy does not count it.
type putOff struct {
	at  time.Time
	err error
}

// Error implements error.
func (p *putOff) Error() string { return "its payload: " + p.err.Error() }

// Unwrap returns the cause.
func (p *putOff) Unwrap() error { return p.err }

// unread returns what an error in reading a payload means. One that is missing or damaged fails the attempt.
func (s *stored) unread(err error) error {
	if errors.Is(err, carillon.NotFound) || errors.Is(err, carillon.DataLoss) {
		return fmt.Errorf("its payload: %w", err)
	}
	pause := min(firstPause<<min(s.failed.Add(1)-1, 10), lastPause)
	return &putOff{time.Now().Add(pause + rand.N(pause/2+1)), err}
}

// open opens the payload that a run refers to.
func (s *stored) open(ctx context.Context, run *carillon.Run) (*storedReader, error) {
	if s.from == nil {
		return nil, fmt.Errorf("its payload is stored apart, and the scheduler of this worker, given to worker.New, does not read payloads")
	}
	from, err := s.from.GetPayload(ctx, run.Namespace, *run.Data.Ref)
	if err != nil {
		return nil, s.unread(err)
	}
	return &storedReader{stored: s, from: from, ctx: ctx, left: run.Data.Ref.Size}, nil
}

// storedReader is a payload as it is read. It keeps the error that ended it, for a handler that returns
// another one because of it. Only the end of the whole payload is [io.EOF], and no other error wraps one: a
// handler that looks for it would take what came for all of it.
type storedReader struct {
	stored *stored
	from   io.ReadCloser
	ctx    context.Context // of the handler
	left   int64           // bytes that are still to come
	err    error
}

// Read implements [io.Reader].
func (r *storedReader) Read(p []byte) (int, error) {
	late := r.ctx.Err() != nil // the handler was, not the payload
	n, err := r.from.Read(p)
	r.left -= int64(n)
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF && r.left == 0: //nolint:errorlint // another error that wraps it is no end
		r.stored.failed.Store(0)
		return n, err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = carillon.Errorf(carillon.Unavailable, "payload", "it broke off %d bytes before its end: %v", r.left, err)
	}
	timedOut := !late && errors.Is(r.ctx.Err(), context.DeadlineExceeded) // while the payload was waited for
	if r.err == nil && (timedOut || r.ctx.Err() == nil) {
		r.err = r.stored.unread(err)
	}
	return n, err
}

// outcome returns what a handler's error means: if the payload could not be read, that is why.
func (r *storedReader) outcome(err error) error {
	if err != nil && r.err != nil {
		return r.err
	}
	return err
}

// withInput calls f with the input of a run.
func withInput[T any](ctx context.Context, s *stored, run *carillon.Run, f func(in T) error) error {
	var in T
	streamed, streams := any(&in).(*io.Reader)
	if run.Data.Ref == nil {
		if streams {
			*streamed = bytes.NewReader(run.Data.Bytes)
			return f(in)
		}
		in, err := decode[T](run.Data)
		if err != nil {
			return err
		}
		return f(in)
	}
	from, err := s.open(ctx, run)
	if err != nil {
		return err
	}
	defer from.from.Close()
	if streams {
		*streamed = from
		return from.outcome(f(in))
	}
	data := carillon.Data{ContentType: run.Data.ContentType}
	if data.Bytes, err = readAll(from, run.Data.Ref.Size); err != nil {
		return from.outcome(err)
	}
	if in, err = decode[T](data); err != nil {
		return err
	}
	return f(in)
}

// readAll reads size bytes, in memory that is as large from the start.
func readAll(r io.Reader, size int64) ([]byte, error) {
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) { // which tells that all is right
		return nil, errors.Join(err, errors.New("the payload does not end where it should"))
	}
	return b, nil
}
