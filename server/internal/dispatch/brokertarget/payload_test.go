package brokertarget

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// payloads are as large as they are said to be, or cannot be read.
type payloads struct {
	err    error
	passes bool
	short  int64
}

func (p *payloads) Get(_ context.Context, _ string, ref carillon.PayloadRef) (io.ReadCloser, error) {
	if p.err != nil {
		return nil, p.err
	}
	return io.NopCloser(bytes.NewReader(make([]byte, ref.Size-p.short))), nil
}

func (p *payloads) PutOff(error) (time.Duration, bool) { return time.Minute, p.passes }

// apart is an attempt whose payload does not come with it.
func apart(seq int, size int64) delivery.Delivery {
	d := attempt(seq)
	d.Run.Data = carillon.Data{Ref: &carillon.PayloadRef{Size: size}}
	return d
}

// TestPayloadsFitIntoMemory: what is read at a time is bounded, and its order is kept. What comes with its run
// does not wait for it.
func TestPayloadsFitIntoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int
		var held int
		r := newRig(t, Options{Payloads: &payloads{}}, func(_ context.Context, ms []broker.Message,
			done func(int, error)) {
			mu.Lock()
			defer mu.Unlock()
			for i := range ms {
				sizes = append(sizes, len(ms[i].Data))
				held += len(ms[i].Data)
			}
			if held > payloadsPerBroker+100 {
				t.Errorf("%d bytes at a time", held)
			}
			go func() {
				<-time.After(time.Second)
				for i := range ms {
					mu.Lock()
					held -= len(ms[i].Data)
					mu.Unlock()
					done(i, nil)
				}
			}()
		})
		r.deliver(apart(0, MaxStoredPayload), apart(1, MaxStoredPayload), attempt(2), apart(3, MaxStoredPayload),
			apart(4, MaxStoredPayload+1), apart(5, 10))
		<-time.After(5 * time.Second)
		synctest.Wait()
		mu.Lock()
		sizes = slices.DeleteFunc(sizes, func(n int) bool { return n == 3 })
		mu.Unlock()
		want := []int{MaxStoredPayload, MaxStoredPayload, MaxStoredPayload, 10}
		if len(sizes) != len(want) {
			t.Fatal(sizes)
		}
		for i := range want {
			if sizes[i] != want[i] {
				t.Fatal(sizes)
			}
		}
		for i := range 6 {
			one, ok := r.report(i)
			switch {
			case !ok:
				t.Errorf("%d is not reported", i)
			case i == 4 && (!one.Permanent || !strings.Contains(one.Message, "33554433 bytes")):
				t.Errorf("%+v", one.Result)
			case i != 4 && one.Outcome != carillon.OutcomeSuccess:
				t.Errorf("%d: %+v", i, one.Result)
			}
		}
		r.client().does(all(nil))
		if ok, _ := r.set.brokers["events"].payloads.try(payloadsPerBroker); !ok {
			t.Error("some of the budget was not given back")
		}
		r.close()
	})
}

// hanging are payloads that are never read.
type hanging struct{ payloads }

func (*hanging) Get(ctx context.Context, _ string, _ carillon.PayloadRef) (io.ReadCloser, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestAPayloadStoreThatHangs holds nobody else up, and each batch of runs for a bounded time. None of them is
// sent when its time is over.
func TestAPayloadStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Payloads: &hanging{payloads{passes: true}}}, all(nil))
		long := apart(0, 10)
		long.Timeout = time.Hour
		r.deliver(long, apart(1, 10), attempt(2))
		synctest.Wait()
		if one, ok := r.report(2); !ok || one.Outcome != carillon.OutcomeSuccess {
			t.Errorf("the one that has its payload: %+v", one.Result)
		}
		<-time.After(2 * readWithin)
		synctest.Wait()
		for i := range 2 {
			if one, _ := r.report(i); one.Outcome != carillon.OutcomeReschedule {
				t.Errorf("%d: %+v", i, one.Result)
			}
		}
		r.close()
	})
}

// TestAPayloadThatCannotBeRead puts the run off if that may pass, and otherwise fails it.
func TestAPayloadThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		payloads dispatch.Payloads
		want     carillon.Outcome
	}{
		"none":      {nil, carillon.OutcomeReschedule},
		"away":      {&payloads{err: errors.New("away"), passes: true}, carillon.OutcomeReschedule},
		"damaged":   {&payloads{err: errors.New("damaged")}, carillon.OutcomeFailure},
		"too short": {&payloads{short: 1}, carillon.OutcomeFailure},
		"too long":  {&payloads{short: -1}, carillon.OutcomeFailure},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{Payloads: c.payloads}, all(nil))
				r.deliver(apart(0, 10), attempt(1))
				synctest.Wait()
				one, _ := r.report(0)
				if one.Outcome != c.want || !strings.HasPrefix(one.Message, "its payload: ") {
					t.Errorf("%+v", one.Result)
				}
				if c.want == carillon.OutcomeReschedule && !one.At.After(time.Now().Add(time.Minute-1)) {
					t.Errorf("put off until %v", one.At)
				}
				if other, _ := r.report(1); other.Outcome != carillon.OutcomeSuccess || r.room() != inFlight {
					t.Errorf("the other one: %+v; room for %d", other.Result, r.room())
				}
				r.close()
			})
		})
	}
}
