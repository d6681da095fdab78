package httptarget

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// heldPayloads has one payload, and a reader of it as a test wants it.
type heldPayloads struct {
	data []byte
	get  func(ctx context.Context, data []byte) (io.Reader, error) // nil: all of it
}

const putOffFor = 10 * time.Second

func (h heldPayloads) Get(ctx context.Context, namespace string,
	ref carillon.PayloadRef) (io.ReadCloser, error) {
	if namespace != "default" || ref != *h.ref() {
		return nil, carillon.Errorf(carillon.NotFound, "payload", "there is none")
	}
	if h.get == nil {
		return io.NopCloser(bytes.NewReader(h.data)), nil
	}
	r, err := h.get(ctx, h.data)
	return io.NopCloser(r), err
}

func (h heldPayloads) PutOff(err error) (time.Duration, bool) {
	return putOffFor, !errors.Is(err, carillon.NotFound) && !errors.Is(err, carillon.DataLoss)
}

func (h heldPayloads) ref() *carillon.PayloadRef {
	return &carillon.PayloadRef{Day: 20000, SHA256: sha256.Sum256(h.data), Size: int64(len(h.data))}
}

// delivery is an attempt whose payload is stored.
func (h heldPayloads) delivery(seq int, to string) delivery.Delivery {
	v := newDelivery(seq, to)
	v.Run.Data = carillon.Data{Ref: h.ref(), ContentType: "image/png"}
	return v
}

func held() heldPayloads { return heldPayloads{data: bytes.Repeat([]byte("0123456789abcdef"), 1<<17)} }

// TestAStoredPayloadIsTheBody of the request, with its length, signed as if it had come with the run.
func TestAStoredPayloadIsTheBody(t *testing.T) {
	secret := bytes.Repeat([]byte{7}, 32)
	h := held()
	var got *http.Request
	var came []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		came, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	for _, secrets := range [][][]byte{nil, {secret}} {
		d := open(t, New(Options{Allow: loopback, Payloads: h, Now: func() time.Time { return time.Unix(1_800_000_001, 0) },
			Secrets: func(string) [][]byte { return secrets }}))
		v := h.delivery(1, server.URL)
		if r := d.do(t, v); r.Outcome != carillon.OutcomeSuccess {
			t.Fatal(r.Message)
		}
		if !bytes.Equal(came, h.data) || got.ContentLength != int64(len(h.data)) ||
			got.Header.Get("Content-Type") != "image/png" {
			t.Errorf("%d of %d bytes came, %d announced", len(came), len(h.data), got.ContentLength)
		}
		if secrets == nil {
			continue
		}
		inline := newDelivery(1, server.URL)
		inline.Run.Data.Bytes = h.data
		want, err := newRequest(t.Context(), &inline, &body{run: inline.Run}, secrets, time.Unix(1_800_000_001, 0))
		if err != nil {
			t.Fatal(err)
		}
		if sign := got.Header.Get("Webhook-Signature"); sign == "" || sign != want.Header.Get("Webhook-Signature") {
			t.Errorf("signed %q, want %q", sign, want.Header.Get("Webhook-Signature"))
		}
	}
}

// TestAPayloadThatCannotBeRead puts the run off if that may pass, without a failure, wherever it happens; and
// fails the attempt if it will not. The target never sees a whole request.
func TestAPayloadThatCannotBeRead(t *testing.T) {
	away := carillon.Errorf(carillon.Unavailable, "", "the bucket is away")
	gone := carillon.Errorf(carillon.NotFound, "", "there is no such payload")
	damaged := carillon.Errorf(carillon.DataLoss, "", "it is damaged")
	at := func(n int, err error) func(context.Context, []byte) (io.Reader, error) {
		return func(_ context.Context, data []byte) (io.Reader, error) {
			return io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(err)), nil
		}
	}
	get := func(err error) func(context.Context, []byte) (io.Reader, error) {
		return func(context.Context, []byte) (io.Reader, error) { return nil, err }
	}
	half := len(held().data) / 2
	for name, c := range map[string]struct {
		get    func(context.Context, []byte) (io.Reader, error)
		signed bool
		putOff bool
		says   string
	}{
		"away":                {get(away), false, true, "the bucket is away"},
		"away at the start":   {at(0, away), false, true, "the bucket is away"},
		"away in the middle":  {at(half, away), false, true, "the bucket is away"},
		"away while signed":   {at(half, away), true, true, "the bucket is away"},
		"gone":                {get(gone), false, false, "there is no such payload"},
		"damaged at its end":  {at(half, damaged), false, false, "it is damaged"},
		"damaged when signed": {at(half, damaged), true, false, "it is damaged"},
	} {
		h := held()
		h.get = c.get
		whole := make(chan bool, 1)
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			whole <- err == nil
		}))
		o := Options{Allow: loopback, Payloads: h}
		if c.signed {
			o.Secrets = func(string) [][]byte { return [][]byte{bytes.Repeat([]byte{7}, 32)} }
		}
		d := open(t, New(o))
		began := time.Now()
		r := d.do(t, h.delivery(1, server.URL))
		server.Close()
		want := carillon.OutcomeFailure
		if c.putOff {
			want = carillon.OutcomeReschedule
		}
		if r.Outcome != want || !strings.Contains(r.Message, c.says) || r.Permanent {
			t.Errorf("%s: %v, %q; want %v", name, r.Outcome, r.Message, want)
		}
		if c.putOff && (r.At.Before(began.Add(putOffFor)) || r.At.After(time.Now().Add(2*putOffFor))) {
			t.Errorf("%s: put off until %v", name, r.At)
		}
		select {
		case all := <-whole:
			if all {
				t.Errorf("%s: the target got a whole request", name)
			}
		default:
		}
	}
}

// TestATargetThatHangsUpIsNoFaultOfThePayload: the attempt fails as others do.
func TestATargetThatHangsUpIsNoFaultOfThePayload(t *testing.T) {
	h := held()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = c.Close()
		}
	}))
	defer server.Close()
	d := open(t, New(Options{Allow: loopback, Payloads: h}))
	if r := d.do(t, h.delivery(1, server.URL)); r.Outcome != carillon.OutcomeFailure || !strings.Contains(r.Message, "connection") {
		t.Errorf("%v: %q", r.Outcome, r.Message)
	}
}

// TestAReaderThatIsClosedIsNoFaultOfThePayload: net/http closes the body of a request while it may be read.
func TestAReaderThatIsClosedIsNoFaultOfThePayload(t *testing.T) {
	h := held()
	broken := errors.New("closed")
	h.get = func(context.Context, []byte) (io.Reader, error) { return iotest.ErrReader(broken), nil }
	for _, closed := range []bool{true, false} {
		b := &body{ctx: t.Context(), end: func() {}, run: h.delivery(1, "http://x").Run, payloads: h, done: func() {}}
		r, err := b.open()
		if err != nil {
			t.Fatal(err)
		}
		if closed {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, broken) || (b.failed() == nil) != closed {
			t.Errorf("closed %v: %v, noted %v", closed, err, b.failed())
		}
	}
}

// TestSlowPayloadsLeaveRoom: a payload store that does not answer takes half of a host's slots, and only for
// a while; runs whose payload comes with them go on.
func TestSlowPayloadsLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := held()
		h.get = func(ctx context.Context, _ []byte) (io.Reader, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		bubble(t, Options{HostLimit: 4, Payloads: h}, func(http.ResponseWriter, *http.Request) {},
			func(t *testing.T, d *fakeSink) {
				const url = "http://a.example.com/"
				putOff := func(when string) {
					t.Helper()
					if r := <-d.reports; r.Outcome != carillon.OutcomeReschedule {
						t.Errorf("%s: %v, %q", when, r.Outcome, r.Message)
					}
				}
				for i := range 2 {
					d.deliver(t, h.delivery(i, url))
				}
				synctest.Wait()
				for i := range 20 {
					d.deliver(t, h.delivery(10+i, url))
					putOff("more than half")
					synctest.Wait()
					if r := d.do(t, newDelivery(40+i, url)); r.Outcome != carillon.OutcomeSuccess {
						t.Errorf("a run with its payload: %q", r.Message)
					}
					synctest.Wait()
				}
				began := time.Now()
				for range 2 {
					putOff("not answered")
				}
				if took := time.Since(began); took > time.Minute/2 {
					t.Errorf("they held their slots for %v, of a timeout of a minute", took)
				}
			})
	})
}

// TestASlowPayloadStoreIsNoFaultOfTheTarget: an attempt whose time passes while its payload does not come is put
// off, wherever it waits. If the target could have had all of it, or does not take it, the attempt has failed.
func TestASlowPayloadStoreIsNoFaultOfTheTarget(t *testing.T) {
	stuck := func(n int) func(context.Context, []byte) (io.Reader, error) {
		return func(ctx context.Context, data []byte) (io.Reader, error) {
			return io.MultiReader(bytes.NewReader(data[:n]), blocked{ctx}), nil
		}
	}
	half := len(held().data) / 2
	for name, c := range map[string]struct {
		get     func(context.Context, []byte) (io.Reader, error)
		signed  bool
		putOff  bool
		atFirst time.Duration // about when
	}{
		"stuck at the start":   {stuck(0), false, true, time.Minute},
		"stuck in the middle":  {stuck(half), false, true, time.Minute},
		"stuck while signed":   {stuck(half), true, true, time.Minute / 2},
		"trickles":             {trickle, false, true, time.Minute},
		"trickles when signed": {trickle, true, true, time.Minute / 2},
		"no answer":            {nil, false, false, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := held()
			h.get = c.get
			o := Options{HostLimit: 4, Payloads: h}
			if c.signed {
				o.Secrets = func(string) [][]byte { return [][]byte{bytes.Repeat([]byte{7}, 32)} }
			}
			bubble(t, o, func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done() // it has read the body before, and does not answer
			}, func(t *testing.T, d *fakeSink) {
				began := time.Now()
				v := h.delivery(1, "http://a.example.com/")
				v.Timeout = time.Minute
				r := d.do(t, v)
				want := carillon.OutcomeFailure
				if c.putOff {
					want = carillon.OutcomeReschedule
				}
				if took := time.Since(began); r.Outcome != want || took < c.atFirst || took > c.atFirst+time.Second {
					t.Errorf("%s: %v after %v, %q", name, r.Outcome, took, r.Message)
				}
				if c.putOff && !r.At.After(time.Now()) {
					t.Errorf("%s: put off until %v", name, r.At)
				}
			})
			<-time.After(time.Second) // net/http lingers on a connection that broke off
		})
	}
}

// TestRefusedDeliveriesComeBackOneAfterTheOther: as many at a time as there are slots for them, and none later
// than after a minute.
func TestRefusedDeliveriesComeBackOneAfterTheOther(t *testing.T) {
	h, now := &host{limit: 8}, time.Now()
	for range 4 {
		if err := h.beginReading(now); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(want time.Duration) {
		t.Helper()
		if pause, ok := errors.AsType[busy](h.beginReading(now)); !ok || time.Duration(pause) != want {
			t.Errorf("refused for %v, want %v", time.Duration(pause), want)
		}
	}
	for i := range 116 {
		wait(busyPause + time.Duration(i)*busyPause/4)
	}
	for range 1000 {
		wait(lastBusyPause)
	}
	now = now.Add(time.Hour)
	wait(busyPause)
}

// TestATargetThatDoesNotTakeABody is what an attempt has waited for.
func TestATargetThatDoesNotTakeABody(t *testing.T) {
	b := &body{within: time.Minute, left: 1}
	if b.timeUp(); b.failed() != nil {
		t.Errorf("nothing was asked for: %v", b.failed())
	}
	b.asks()
	if b.timeUp(); !errors.Is(b.failed(), errSlow) {
		t.Errorf("a byte was waited for: %v", b.failed())
	}
}

// blocked is a reader that waits for its context.
type blocked struct{ ctx context.Context }

func (b blocked) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// trickle is a payload of which some comes every second.
func trickle(ctx context.Context, data []byte) (io.Reader, error) {
	return &trickling{ctx, bytes.NewReader(data)}, nil
}

type trickling struct {
	ctx  context.Context
	from io.Reader
}

func (r *trickling) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second):
		return r.from.Read(p[:min(len(p), 1000)])
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}

// TestANodeWithoutAPayloadStorePutsRunsOff: another node may have one.
func TestANodeWithoutAPayloadStorePutsRunsOff(t *testing.T) {
	d := open(t, New(Options{Allow: loopback}))
	r := d.do(t, held().delivery(1, "http://127.0.0.1:1/"))
	if r.Outcome != carillon.OutcomeReschedule || !strings.Contains(r.Message, "no payload store") {
		t.Errorf("%v: %q", r.Outcome, r.Message)
	}
}
