package worker_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

// storing is a server that has a payload.
type storing struct {
	*server
	data string
	fail func() error // when it is opened; nil: it does not
	read error        // after half of it; nil: none
	hang bool         // at half of it, until the context has ended
}

// hanging is a reader that waits for its context.
type hanging struct{ ctx context.Context }

func (h hanging) Read([]byte) (int, error) {
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}

func (s *storing) GetPayload(ctx context.Context, namespace string,
	ref carillon.PayloadRef) (io.ReadCloser, error) {
	if namespace != "ns" || ref != *s.ref() {
		return nil, carillon.Errorf(carillon.NotFound, "payload", "there is none")
	}
	if s.fail != nil {
		if err := s.fail(); err != nil {
			return nil, err
		}
	}
	held := io.Reader(strings.NewReader(s.data))
	if s.hang {
		held = io.MultiReader(io.LimitReader(held, int64(len(s.data)/2)), hanging{ctx})
	}
	if s.read != nil {
		held = io.MultiReader(io.LimitReader(held, int64(len(s.data)/2)), iotest.ErrReader(s.read))
	}
	return io.NopCloser(held), nil
}

func (s *storing) ref() *carillon.PayloadRef {
	return &carillon.PayloadRef{Day: 20000, SHA256: sha256.Sum256([]byte(s.data)), Size: int64(len(s.data))}
}

// stored is a run of the queue "q" whose payload is stored.
func (s *storing) stored(token string) carillon.Run {
	r := run(token)
	r.Namespace, r.Data = "ns", carillon.Data{Ref: s.ref(), ContentType: carillon.ContentTypeJSON}
	return r
}

// served delivers a run to a worker, and returns what it reports.
func served(t *testing.T, w *worker.Worker, s *server, r carillon.Run) carillon.Result {
	t.Helper()
	leave, left := start(t, w)
	link := s.next()
	link.sent()
	link.deliver(r)
	var results []carillon.Result
	for waited := 0; results == nil && waited < 100; waited++ { // the handler may wait for its context
		if results = link.sent().Results; results == nil {
			<-time.After(100 * time.Millisecond)
		}
	}
	link.ack(results)
	leaveAndWait(t, s, leave, left)
	if len(results) != 1 {
		t.Fatalf("%d results", len(results))
	}
	return results[0]
}

// TestAStoredPayloadIsReadForTheHandler, whatever its input is.
func TestAStoredPayloadIsReadForTheHandler(t *testing.T) {
	const text = `{"n":7}`
	type in struct{ N int }
	for name, handle := range map[string]func(w *worker.Worker, got *string){
		"JSON": func(w *worker.Worker, got *string) {
			worker.Handle(w, "q", func(_ context.Context, _ carillon.Run, v in) error {
				*got = fmt.Sprintf(`{"n":%d}`, v.N)
				return nil
			})
		},
		"bytes": func(w *worker.Worker, got *string) {
			worker.Handle(w, "q", func(_ context.Context, _ carillon.Run, v []byte) error {
				*got = string(v)
				return nil
			})
		},
		"data": func(w *worker.Worker, got *string) {
			worker.Handle(w, "q", func(_ context.Context, _ carillon.Run, v carillon.Data) error {
				if v.ContentType == carillon.ContentTypeJSON {
					*got = string(v.Bytes)
				}
				return nil
			})
		},
		"a stream": func(w *worker.Worker, got *string) {
			worker.HandleResult(w, "q", func(_ context.Context, _ carillon.Run, v io.Reader) (string, error) {
				b, err := io.ReadAll(v)
				*got = string(b)
				return "", err
			})
		},
	} {
		for _, apart := range []bool{true, false} {
			bubble(t, func(t *testing.T, s *server) {
				from := &storing{server: s, data: text}
				w := worker.New(from, worker.Options{Namespace: "ns"})
				var got string
				handle(w, &got)
				r := from.stored("t")
				if !apart {
					r.Data = carillon.Bytes([]byte(text), carillon.ContentTypeJSON)
				}
				if result := served(t, w, s, r); result.Outcome != carillon.OutcomeSuccess || got != text {
					t.Errorf("%s, apart %v: %q, %+v", name, apart, got, result)
				}
				if !s.hellos()[0].Payloads {
					t.Error("the worker does not say that it reads payloads")
				}
			})
		}
	}
}

// TestAPayloadThatCannotBeRead is no failure if that may pass: the run is put off, and says why. One that is
// missing or damaged fails the attempt.
func TestAPayloadThatCannotBeRead(t *testing.T) {
	away := carillon.Errorf(carillon.Unavailable, "", "the bucket is away")
	gone := carillon.Errorf(carillon.NotFound, "", "it is gone")
	damaged := carillon.Errorf(carillon.DataLoss, "", "it is damaged")
	for name, c := range map[string]struct {
		open, read error
		putOff     bool
	}{
		"away": {away, nil, true}, "gone": {gone, nil, false},
		"away in the middle": {nil, away, true}, "damaged": {nil, damaged, false},
	} {
		for _, streams := range []bool{false, true} {
			bubble(t, func(t *testing.T, s *server) {
				from := &storing{server: s, data: "0123456789", fail: func() error { return c.open }, read: c.read}
				w := worker.New(from, worker.Options{Namespace: "ns"})
				if streams {
					worker.Handle(w, "q", func(_ context.Context, _ carillon.Run, v io.Reader) error {
						if _, err := io.Copy(io.Discard, v); err != nil {
							return errors.New("what a handler makes of it")
						}
						return nil
					})
				} else {
					worker.Handle(w, "q", func(context.Context, carillon.Run, []byte) error { return nil })
				}
				r := served(t, w, s, from.stored("t"))
				want, why := carillon.OutcomeFailure, cmpError(c.open, c.read)
				if c.putOff {
					want = carillon.OutcomeReschedule
				}
				if r.Outcome != want || r.Permanent || !strings.Contains(r.Message, why) || c.putOff && !r.At.After(time.Now()) {
					t.Errorf("%s, streamed %v: %+v; want %v because %s", name, streams, r, want, why)
				}
			})
		}
	}
}

func cmpError(errs ...error) string {
	e, _ := errors.AsType[*carillon.Error](errors.Join(errs...))
	return e.Message
}

// TestAPayloadThatBreaksOffIsNotWhole, also for a handler that takes what came before an end.
func TestAPayloadThatBreaksOffIsNotWhole(t *testing.T) {
	for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, fmt.Errorf("read: %w", io.EOF)} {
		for _, streams := range []bool{false, true} {
			bubble(t, func(t *testing.T, s *server) {
				from := &storing{server: s, data: "0123456789", read: broken}
				w := worker.New(from, worker.Options{Namespace: "ns"})
				if streams {
					worker.Handle(w, "q", func(_ context.Context, _ carillon.Run, v io.Reader) error {
						_, err := io.ReadFull(v, make([]byte, 100))
						if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
							return nil
						}
						return err
					})
				} else {
					worker.Handle(w, "q", func(context.Context, carillon.Run, []byte) error { return nil })
				}
				r := served(t, w, s, from.stored("t"))
				if r.Outcome != carillon.OutcomeReschedule || !strings.Contains(r.Message, "5 bytes before its end") {
					t.Errorf("%v, streamed %v: %+v", broken, streams, r)
				}
			})
		}
	}
}

// TestAPayloadThatDoesNotComeInTime is no failure of the handler, unless that was late itself.
func TestAPayloadThatDoesNotComeInTime(t *testing.T) {
	for name, c := range map[string]struct {
		handle func(w *worker.Worker)
		want   carillon.Outcome
	}{
		"bytes": {func(w *worker.Worker) {
			worker.Handle(w, "q", func(context.Context, carillon.Run, []byte) error { return nil })
		}, carillon.OutcomeReschedule},
		"a stream": {func(w *worker.Worker) {
			worker.Handle(w, "q", func(_ context.Context, _ carillon.Run, v io.Reader) error {
				_, err := io.ReadAll(v)
				return err
			})
		}, carillon.OutcomeReschedule},
		"a late handler": {func(w *worker.Worker) {
			worker.Handle(w, "q", func(ctx context.Context, _ carillon.Run, v io.Reader) error {
				<-ctx.Done()
				_, err := io.ReadAll(v)
				return err
			})
		}, carillon.OutcomeFailure},
	} {
		bubble(t, func(t *testing.T, s *server) {
			from := &storing{server: s, data: "0123456789", hang: true}
			w := worker.New(from, worker.Options{Namespace: "ns"})
			c.handle(w)
			run := from.stored("t")
			run.Started = time.Now()
			run.Deadline = run.Started.Add(time.Second)
			if r := served(t, w, s, run); r.Outcome != c.want {
				t.Errorf("%s: %+v, want %v", name, r, c.want)
			}
		})
	}
}

// TestPausesOfRunsGrow while payloads cannot be read, and begin again once one was.
func TestPausesOfRunsGrow(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		var failure error = carillon.Errorf(carillon.Unavailable, "", "away")
		from := &storing{server: s, data: "x", fail: func() error { return failure }}
		w := worker.New(from, worker.Options{Namespace: "ns"})
		worker.Handle(w, "q", func(context.Context, carillon.Run, []byte) error { return nil })
		leave, left := start(t, w)
		link := s.next()
		link.sent()
		try := func(n int) carillon.Result {
			link.deliver(from.stored(fmt.Sprint("t", n)))
			results := link.sent().Results
			link.ack(results)
			return results[0]
		}
		last := time.Duration(0)
		for n := range 8 {
			pause := time.Until(try(n).At)
			if pause <= last && last < time.Minute || pause > 90*time.Second {
				t.Errorf("%v after %v", pause, last)
			}
			last = pause * 2 / 3 // without what is added at random
		}
		failure = nil
		if r := try(100); r.Outcome != carillon.OutcomeSuccess {
			t.Errorf("%+v", r)
		}
		failure = carillon.Errorf(carillon.Unavailable, "", "away")
		if pause := time.Until(try(101).At); pause > 2*time.Second {
			t.Errorf("%v after a success", pause)
		}
		leaveAndWait(t, s, leave, left)
	})
}

// TestAWorkerOfAnotherSchedulerSaysSo: what reads no payloads must not be taken for one that does.
func TestAWorkerOfAnotherSchedulerSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		from := &storing{server: s, data: "x"}
		w := worker.New(s, worker.Options{Namespace: "ns"})
		worker.Handle(w, "q", func(context.Context, carillon.Run, []byte) error {
			t.Error("the handler was called without the payload")
			return nil
		})
		r := served(t, w, s, from.stored("t"))
		if r.Outcome != carillon.OutcomeFailure || !strings.Contains(r.Message, "worker.New") || s.hellos()[0].Payloads {
			t.Errorf("%+v", r)
		}
	})
}
