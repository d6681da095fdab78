package payload

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// Options of a store. URL and Key are needed.
type Options struct {
	// URL is file:DIR, or that of a bucket, such as s3://BUCKET/PREFIX.
	URL string
	// Key is the MAC key of the store of the jobs. The place belongs to that store from the first start on.
	Key []byte
	// Max is the most bytes of a payload. Default [carillon.DefaultStoredPayload].
	Max int64
	// Now is the clock that gives objects their day: that of the store of the jobs, if nodes share one. Default
	// [time.Now].
	Now func() time.Time
	// Encryption encrypts objects. Nil: they are stored as they are. Objects from before there were keys are
	// read as they are.
	Encryption Encryption
	// Count is told what happens. Default: nothing is counted.
	Count Counts
	// Log gets what operators should know. Default: no log.
	Log *slog.Logger
}

// Counts are told what happens. Any may be nil.
type Counts struct {
	Put       func(outcome string, bytes int64) // an object that was to be stored
	Got       func(outcome string)              // an object that was to be read
	Collected func(outcome string, objects uint64)
}

// Outcomes of puts, gets and collections.
const (
	Done        = "done"
	Unavailable = "unavailable" // the folder or bucket did not answer, or refused
	Missing     = "missing"
	Damaged     = "damaged"
	Refused     = "refused" // too large, or not all of it came
)

// Store keeps payloads. It is safe for concurrent use. A nil Store is that of a node without one.
type Store struct {
	o        Options
	objects  objects
	prefix   string
	spooling chan struct{} // filled by puts whose bytes are on this machine's disk
	renewing chan struct{} // and by renewals: they do not wait for callers that are slow
	pause    pause
	owner    owner // see own

	collecting sync.Mutex
}

// mostSpooled is how many payloads may be on their way through the disk of this machine, and how many may be
// renewed.
const mostSpooled = 16

// objectsFolder begins the names of objects, behind the prefix.
const objectsFolder = "payloads"

// Check returns what is wrong with the options.
func (o Options) Check() error {
	if _, err := parse(o.URL); err != nil {
		return fmt.Errorf("payload_store: %w", err)
	}
	if o.Max < 0 || o.Max > carillon.MaxStoredPayload {
		return fmt.Errorf("max_stored_payload: %d is not between 1 and %d", o.Max, carillon.MaxStoredPayload)
	}
	return nil
}

// Open returns the store of a URL, which belongs to the store of the jobs from then on. A place that belongs
// to another one, or refuses, is an error; one that does not answer, or is not whole, is logged, as it may be
// back later.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	o.Max = cmp.Or(o.Max, carillon.DefaultStoredPayload)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	at, err := parse(o.URL)
	if err != nil {
		return nil, err
	}
	if err := canSpool(); err != nil {
		return nil, err
	}
	s := &Store{o: o, spooling: make(chan struct{}, mostSpooled),
		renewing: make(chan struct{}, mostSpooled), owner: newOwner(o.Key)}
	if s.objects, s.prefix, err = at.connect(ctx); err != nil {
		return nil, fmt.Errorf("payload_store: %w", err)
	}
	err = s.own(ctx)
	switch {
	case err == nil:
	case errors.Is(err, bucket.ErrRefused), errors.Is(err, errOwned):
		s.Close()
		return nil, fmt.Errorf("payload_store: %w", err)
	default:
		o.Log.Error("the payload store does not answer: the node starts without it", "store", Redact(o.URL), "error", err)
	}
	return s, nil
}

// errNone is why a node without a store refuses.
func errNone() error {
	return carillon.Errorf(carillon.FailedPrecondition, "payload",
		"the node has no payload store: start all nodes with --payload-store")
}

// Max returns how large a payload may be, in bytes; 0: there is no store.
func (s *Store) Max() int64 {
	if s == nil {
		return 0
	}
	return s.o.Max
}

// name returns the name of an object.
func (s *Store) name(namespace string, r carillon.PayloadRef) string {
	return s.prefix + objectsFolder + "/" + r.DayText() + "/" + namespace + "/" + hex.EncodeToString(r.SHA256[:])
}

// Put stores what r has, and returns its reference once it is durable. The bytes are on this machine's disk
// until their hash, and with it their name, is known.
func (s *Store) Put(ctx context.Context, namespace string, r io.Reader) (carillon.PayloadRef, error) {
	if s == nil {
		return carillon.PayloadRef{}, errNone()
	}
	return s.putIn(ctx, namespace, r, s.spooling)
}

// putIn is Put in one of some slots.
func (s *Store) putIn(ctx context.Context, namespace string, r io.Reader,
	slots chan struct{}) (carillon.PayloadRef, error) {
	var ref carillon.PayloadRef
	if err := carillon.ValidateNamespace(namespace); err != nil {
		return ref, err
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return ref, unavailable(ctx.Err())
	}
	file, err := spool()
	if err != nil {
		return ref, unavailable(fmt.Errorf("there is no place for it on the node's disk: %w", err))
	}
	defer file.Close()
	sum := sha256.New()
	in := &source{from: r}
	n, err := io.Copy(io.MultiWriter(file, sum), io.LimitReader(in, s.o.Max+1))
	switch {
	case in.err != nil:
		s.countPut(Refused, 0)
		return ref, carillon.Errorf(carillon.Canceled, "", "the payload has not come as a whole: %w", in.err)
	case err != nil:
		return ref, unavailable(fmt.Errorf("it cannot be kept on the node's disk: %w", err))
	case n > s.o.Max:
		s.countPut(Refused, 0)
		return ref, carillon.Errorf(carillon.ResourceExhausted, "payload", "it has more than %d bytes", s.o.Max)
	case n == 0:
		s.countPut(Refused, 0)
		return ref, carillon.Errorf(carillon.InvalidArgument, "payload", "it is empty: put the job without it")
	}
	ref = carillon.PayloadRef{SHA256: [sha256.Size]byte(sum.Sum(nil)), Size: n}
	return s.create(ctx, namespace, ref, file)
}

// source remembers why it could not be read.
type source struct {
	from io.Reader
	err  error
}

// Read implements [io.Reader].
func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err != nil && !atEnd(err) {
		s.err = err
	}
	return n, err
}

// spool returns a file without a name, which is gone when it is closed.
func spool() (*os.File, error) {
	f, err := os.CreateTemp("", "carillon-payload-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// canSpool returns an error if there is no place for payloads on their way.
func canSpool() error {
	f, err := spool()
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("payload_store: payloads on their way are kept in the folder %s of this machine, which cannot be "+
			"written to: set TMPDIR to one that can: %w", os.TempDir(), err)
	}
	return nil
}

// PutBytes is Put of what is in memory.
func (s *Store) PutBytes(ctx context.Context, namespace string, b []byte) (carillon.PayloadRef, error) {
	if s == nil {
		return carillon.PayloadRef{}, errNone()
	}
	if err := carillon.ValidateNamespace(namespace); err != nil {
		return carillon.PayloadRef{}, err
	}
	ref := carillon.PayloadRef{SHA256: sha256.Sum256(b), Size: int64(len(b))}
	return s.create(ctx, namespace, ref, bytes.NewReader(b))
}

const (
	createTries = 3
	createPause = 200 * time.Millisecond
)

// create makes an object of the current day durable. One that is there has the same bytes, or is replaced.
func (s *Store) create(ctx context.Context, namespace string, ref carillon.PayloadRef,
	r io.ReadSeeker) (carillon.PayloadRef, error) {
	ref = ref.On(s.o.Now())
	in, size, done, err := s.prepared(namespace, ref, r)
	if err != nil {
		s.countPut(Unavailable, 0)
		return carillon.PayloadRef{}, unavailable(err)
	}
	defer done()
	err = s.own(ctx)
	for try := 1; err == nil; try++ {
		if _, err = in.Seek(0, io.SeekStart); err != nil {
			break
		}
		if err = s.createOnce(ctx, namespace, in, size, ref); err == nil {
			s.countPut(Done, ref.Size)
			return ref, nil
		}
		if try == createTries || errors.Is(err, bucket.ErrRefused) {
			break
		}
		select {
		case <-time.After(time.Duration(try) * createPause):
			err = nil
		case <-ctx.Done():
		}
	}
	s.countPut(Unavailable, 0)
	return carillon.PayloadRef{}, unavailable(fmt.Errorf("the payload store did not take it, nothing has changed: %w", err))
}

func (s *Store) createOnce(ctx context.Context, namespace string, r io.ReadSeeker, size int64,
	ref carillon.PayloadRef) error {
	name := s.name(namespace, ref)
	ctx, cancel := context.WithTimeout(ctx, writeWithin+time.Duration(ref.Size/writeSlowest)*time.Second)
	defer cancel()
	err := s.objects.CreateFrom(ctx, name, r, size)
	if err == nil {
		return nil
	}
	if !errors.Is(err, bucket.ErrExists) {
		// A server that has the object may hang up before it has read all of it once more.
		if has, absent := s.objects.Size(ctx, name); absent != nil || !fits(has, ref) {
			return err
		}
	}
	err = s.settled(ctx, namespace, ref)
	if !errors.Is(err, carillon.DataLoss) {
		return err
	}
	s.o.Log.Warn("a payload that is put again was damaged: it is replaced", "error", err)
	if err := s.objects.Delete(ctx, name); err != nil {
		return err
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err = s.objects.CreateFrom(ctx, name, r, size); errors.Is(err, bucket.ErrExists) {
		return s.settled(ctx, namespace, ref) // another node has replaced it, too
	}
	return err
}

// settled returns nil if an object that is there is whole, and durable.
func (s *Store) settled(ctx context.Context, namespace string, ref carillon.PayloadRef) error {
	if err := s.whole(ctx, namespace, ref); err != nil {
		return err
	}
	return s.objects.Settle(ctx, s.name(namespace, ref))
}

// whole returns nil if an object has what it was made with; DataLoss: it has not.
func (s *Store) whole(ctx context.Context, namespace string, ref carillon.PayloadRef) error {
	from, size, err := s.open(ctx, namespace, ref)
	if err != nil {
		return err
	}
	if size != ref.Size {
		return errors.Join(damaged(ref, "it has %d bytes", size), from.Close())
	}
	_, err = io.Copy(io.Discard, verify(from, ref))
	return errors.Join(err, from.Close())
}

// Get returns the content of an object. Its errors, and those of the reader, are of the kinds NotFound,
// DataLoss or Unavailable; or it is refused.
func (s *Store) Get(ctx context.Context, namespace string, ref carillon.PayloadRef) (io.ReadCloser, error) {
	if s == nil {
		return nil, errNone()
	}
	if err := carillon.ValidateNamespace(namespace); err != nil {
		return nil, err
	}
	if err := s.own(ctx); err != nil && ctx.Err() != nil { // the caller has gone
		return nil, unavailable(err)
	} else if err != nil {
		return nil, s.failed(err)
	}
	within, end := context.WithCancel(ctx)
	timer := time.AfterFunc(answerWithin, end)
	from, size, err := s.open(within, namespace, ref)
	if err == nil && !timer.Stop() {
		err = errors.Join(context.DeadlineExceeded, from.Close())
	}
	if err != nil {
		timer.Stop()
		end()
		if ctx.Err() != nil { // the caller has gone
			return nil, unavailable(err)
		}
		return nil, s.failed(missing(namespace, ref, s.absent(ctx, err)))
	}
	r := &content{store: s, ctx: ctx, from: verify(patiently(from, end), ref)}
	if size != ref.Size {
		return nil, s.failed(errors.Join(damaged(ref, "it has %d bytes", size), r.Close()))
	}
	return r, nil
}

// missing says what an error of an object means to who wants to read it.
func missing(namespace string, ref carillon.PayloadRef, err error) error {
	if errors.Is(err, bucket.ErrAbsent) {
		return carillon.Errorf(carillon.NotFound, "payload", "namespace %q has no payload %s: put it again",
			namespace, ref)
	}
	return err
}

// unavailable is the error of what the store does not do at present. It wraps no end of a reader: whoever
// looks for one would take the bytes until then for all of them.
func unavailable(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return carillon.Errorf(carillon.Unavailable, "payload", "%v", err)
	}
	return carillon.Errorf(carillon.Unavailable, "payload", "%w", err)
}

// failed counts a failed read, and logs the first of several in a row that the store has not answered.
func (s *Store) failed(err error) error {
	switch {
	case errors.Is(err, carillon.NotFound):
		s.countGot(Missing)
		return err
	case errors.Is(err, carillon.DataLoss):
		s.countGot(Damaged)
		s.o.Log.Error("a payload is damaged", "error", err)
		return err
	}
	s.countGot(Unavailable)
	if s.pause.failed(time.Now()) == firstPause {
		s.o.Log.Warn("payloads cannot be read at present: runs that need one are put off", "error", err)
	}
	return unavailable(fmt.Errorf("the payload cannot be read: %w", err))
}

// PutOff reports whether an error of Get, or of its reader, means that the payload may be read later; then it
// returns how long to wait.
func (s *Store) PutOff(err error) (time.Duration, bool) {
	if errors.Is(err, carillon.NotFound) || errors.Is(err, carillon.DataLoss) {
		return 0, false
	}
	if s == nil {
		return lastPause, true
	}
	return s.pause.failed(time.Now()), true
}

// Ensure returns a reference that a job can be put with: ref itself, if its object is there and of the
// current or the previous day. An older object may be about to be removed, so its bytes are stored again.
func (s *Store) Ensure(ctx context.Context, namespace string,
	ref carillon.PayloadRef) (carillon.PayloadRef, error) {
	if s == nil {
		return ref, errNone()
	}
	if err := carillon.ValidateNamespace(namespace); err != nil {
		return ref, err
	}
	if age := ref.On(s.o.Now()).Day - ref.Day; age > 1 || age < 0 {
		return s.renew(ctx, namespace, ref)
	}
	if err := s.own(ctx); err != nil {
		return ref, s.failed(err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	size, err := s.objects.Size(ctx, s.name(namespace, ref))
	switch {
	case err != nil:
		return ref, s.failed(missing(namespace, ref, s.absent(ctx, err)))
	case !fits(size, ref):
		return ref, s.failed(damaged(ref, "it has %d bytes", size))
	}
	if err := s.objects.Settle(ctx, s.name(namespace, ref)); err != nil {
		return ref, s.failed(err)
	}
	return ref, nil
}

// renew stores the bytes of an object as one of the current day.
func (s *Store) renew(ctx context.Context, namespace string,
	ref carillon.PayloadRef) (carillon.PayloadRef, error) {
	r, err := s.Get(ctx, namespace, ref)
	if err != nil {
		return ref, err
	}
	defer r.Close()
	in := &source{from: r}
	again, err := s.putIn(ctx, namespace, in, s.renewing)
	if in.err != nil {
		err = in.err // it has a kind of its own
	}
	return again, err
}

func (s *Store) countPut(outcome string, n int64) {
	if f := s.o.Count.Put; f != nil {
		f(outcome, n)
	}
}

func (s *Store) countGot(outcome string) {
	if f := s.o.Count.Got; f != nil {
		f(outcome)
	}
}
