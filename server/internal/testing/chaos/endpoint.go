package chaos

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/deliveries"
	"github.com/carillonhq/carillon/server/store"
)

// endpoint is an HTTP target of bad habits. It keeps connections, and closes some of them: while they are
// idle, before it has read anything from them, or in place of an answer.
type endpoint struct {
	record *checker.Recorder
	book   *deliveries.Book
	good   <-chan struct{}
	server *http.Server
	url    string

	mu   sync.Mutex
	dice dice
	errs []error // requests that are not as docs/api.md says
}

// newEndpoint listens.
func newEndpoint(record *checker.Recorder, book *deliveries.Book, d dice, good <-chan struct{}) (*endpoint,
	error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &endpoint{record: record, book: book, good: good, dice: d,
		url: "http://" + l.Addr().String() + "/hook"}
	// A connection that a node has made and has no use for yet is not closed but by changed: the node may use it
	// at that very moment, and its request is lost then.
	e.server = &http.Server{Handler: e, ReadHeaderTimeout: 24 * time.Hour, ConnState: e.changed}
	go func() {
		if err := e.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			e.wrong(err)
		}
	}()
	return e, nil
}

func (e *endpoint) wrong(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.errs = append(e.errs, err)
}

// close ends the endpoint and says what was wrong with what it got.
func (e *endpoint) close() error {
	err := e.server.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(append(e.errs, err)...)
}

// changed closes some connections when they were just opened, and some that have become idle: what is on its
// way on them then is never read.
func (e *endpoint) changed(c net.Conn, state http.ConnState) {
	select {
	case <-e.good:
		return
	default:
	}
	e.mu.Lock()
	hangUp := (state == http.StateNew && e.dice.chance(60)) || (state == http.StateIdle && e.dice.chance(15))
	e.mu.Unlock()
	if hangUp {
		now := time.Now()
		_ = c.Close() // the other end sees it
		e.book.Lost(deliveries.Loss{Receiver: "endpoint", From: now, To: time.Now()})
	}
}

// ServeHTTP takes an attempt.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, err := requestOf(r)
	if err != nil {
		if r.Context().Err() == nil { // a node that dies while it sends is no fault of the request
			e.wrong(err)
		}
		return
	}
	e.record.Attempt(a)
	place := e.book.Saw(e.delivery(&a, r.RemoteAddr))
	e.mu.Lock()
	status := pick(e.dice, 200, 200, 200, 200, 200, 200, 204, 500, 502, 0, -1)
	length := e.dice.between(0, 50*time.Millisecond)
	e.mu.Unlock()
	select {
	case <-e.good:
		status, length = http.StatusOK, 0
	default:
	}
	res := checker.Result{RunID: a.RunID, Token: a.Token, Number: a.Number, Kind: checker.Failure}
	switch status {
	case 0: // longer than the attempt's timeout
		res.Kind = checker.LostWorker
		e.record.Sent(res)
		_ = pause(r.Context(), 2*httpTimeout) // the caller hangs up first, unless it is frozen
		panic(http.ErrAbortHandler)           // to return would be to answer 200
	case -1:
		res.Kind = checker.LostWorker
		e.record.Sent(res)
		panic(http.ErrAbortHandler) // cuts the connection
	case http.StatusOK, http.StatusNoContent:
		res.Kind = checker.Success
	}
	if pause(r.Context(), length) != nil {
		res.Kind = checker.LostWorker
	}
	e.record.Sent(res)
	switch res.Kind {
	case checker.Success:
		e.book.Answered(place, deliveries.Success, time.Now())
	case checker.Failure:
		e.book.Answered(place, deliveries.Failure, time.Now())
	}
	w.WriteHeader(status)
}

// delivery is a request as the ledger has it.
func (e *endpoint) delivery(a *checker.Attempt, conn string) deliveries.Delivery {
	d := deliveryOf(a)
	d.Conn, d.Timeout = conn, httpTimeout
	return d
}

// requestOf reads an attempt from its request.
func requestOf(r *http.Request) (checker.Attempt, error) {
	h := r.Header
	name, ok := strings.CutPrefix(h.Get("Carillon-Job"), namespace+"/")
	job, err := url.PathUnescape(name)
	if !ok || err != nil {
		return checker.Attempt{}, errors.Join(errors.New("Carillon-Job is "+h.Get("Carillon-Job")), err)
	}
	number, err := strconv.Atoi(h.Get("Carillon-Attempt"))
	if err != nil {
		return checker.Attempt{}, err
	}
	scheduled, err := time.Parse(time.RFC3339Nano, h.Get("Carillon-Scheduled-Time"))
	if err != nil {
		return checker.Attempt{}, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return checker.Attempt{}, err
	}
	a := checker.Attempt{
		RunID: h.Get("Idempotency-Key"), Namespace: namespace, Job: job, Cause: causeOf(h.Get("Idempotency-Key")),
		Scheduled: scheduled, Number: number, Token: h.Get("Carillon-Token"), Payload: hashOf(body),
		Worker: "endpoint",
	}
	if a.RunID == "" || a.Token == "" {
		err = errors.New("a request without run id or token")
	}
	return a, err
}

// causeOf reads the cause from a run id, which says it.
func causeOf(id string) string {
	run, err := store.ParseRunID(id)
	if err != nil {
		return ""
	}
	return run.Cause.String()
}
