package peer_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/internal/peer"
	"github.com/carillonhq/carillon/internal/permit"
	"github.com/carillonhq/carillon/store"
)

// filler gives every field a value of its own, so that a field that is not transferred shows, including one
// that is added later.
type filler struct{ n int }

func (f *filler) fill(v reflect.Value) {
	f.n++
	switch x := v.Addr().Interface().(type) {
	case *identity.Run:
		*x = identity.Run{Partition: 3, UID: carillon.UID{1: byte(f.n)}, Scheduled: int64(f.n)}
		return
	case *time.Time:
		*x = time.Unix(int64(f.n), 5).UTC()
		return
	case *carillon.Outcome:
		*x = carillon.OutcomeFailure
		return
	case *partition.Reporter:
		return // it stays in the process
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			f.fill(field)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.String:
		v.SetString(fmt.Sprint("text", f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(int64(f.n))
	case reflect.Float64:
		v.SetFloat(float64(f.n))
	case reflect.Uint8:
		v.SetUint(uint64(f.n % 200))
	case reflect.Uint64, reflect.Uint32:
		v.SetUint(uint64(f.n))
	default:
		panic(fmt.Sprintf("no value for a %v", v.Type()))
	}
}

// filled returns a value in which every field is set.
func filled[T any]() (v T) {
	(&filler{}).fill(reflect.ValueOf(&v).Elem())
	return v
}

// far records what it is asked, and answers with everything that can be answered.
type far struct {
	node
	t *testing.T
}

const farPartition = 9

// same compares what arrived with what was sent.
func same[T any](f *far, p int, got T) {
	f.t.Helper()
	if want := filled[T](); p != farPartition || !reflect.DeepEqual(got, want) {
		f.t.Errorf("for %d: %+v\nwant %+v", p, got, want)
	}
}

func (f *far) Register(_ context.Context, p int, edges []partition.Dependency) ([]bool, error) {
	same(f, p, edges)
	return []bool{true, false}, nil
}

func (f *far) Release(_ context.Context, p int, l partition.Notice) (partition.Answer, error) {
	same(f, p, l)
	return partition.Nobody, nil
}

func (f *far) Waits(_ context.Context, p int, e partition.Dependency) (bool, error) {
	same(f, p, e)
	return true, nil
}

func (f *far) Relay(_ context.Context, p int, s engine.Reports) (engine.RelayResult, error) {
	same(f, p, s)
	return filled[engine.RelayResult](), nil
}

func (f *far) RequestPermits(_ context.Context, p int, from permit.Asker, asks []permit.Request) ([]permit.Grant, error) {
	same(f, p, from)
	same(f, p, asks)
	return filled[[]permit.Grant](), nil
}

func (f *far) DeliverPermits(_ context.Context, p int, grants []permit.Grant) error {
	same(f, p, grants)
	return nil
}

func (f *far) ReloadNamespace(_ context.Context, name string) error {
	if name != "ns" {
		f.t.Errorf("namespace %q", name)
	}
	return nil
}

// TestEveryFieldCrosses: every field of requests between partitions and of their answers.
func TestEveryFieldCrosses(t *testing.T) {
	c, _ := serveAs(t, &far{t: t}, peer.Options{})
	ctx := t.Context()
	check := func(what string, got, want any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v\nwant %+v", what, got, err, want)
		}
	}
	exist, err := c.Register(ctx, farPartition, filled[[]partition.Dependency]())
	check("register", exist, []bool{true, false}, err)
	answer, err := c.Release(ctx, farPartition, filled[partition.Notice]())
	check("release", answer, partition.Nobody, err)
	waits, err := c.Waits(ctx, farPartition, filled[partition.Dependency]())
	check("waits", waits, true, err)
	heard, err := c.Relay(ctx, farPartition, filled[engine.Reports]())
	check("hear", heard, filled[engine.RelayResult](), err)
	grants, err := c.RequestPermits(ctx, farPartition, filled[permit.Asker](), filled[[]permit.Request]())
	check("ask for tokens", grants, filled[[]permit.Grant](), err)
	check("give tokens", nil, nil, c.DeliverPermits(ctx, farPartition, filled[[]permit.Grant]()))
	check("reload", nil, nil, c.ReloadNamespace(ctx, "ns"))
}

// TestEveryFieldOfAShareCrosses: except the options, which a batch does not have.
func TestEveryFieldOfAShareCrosses(t *testing.T) {
	j := job()
	j.Paused = true
	share := partition.Share{Batch: "batch", Coordinator: 5, Late: true, Reqs: []partition.PutRequest{{
		Job: &j, Random: [8]byte{1, 2}, At: 77, Spec: partition.EncodeSpec(&j), Waits: filled[[]store.Wait](),
	}}}
	n := &node{share: func(_ int, got *partition.Share) ([]carillon.PutResult, error) {
		if len(got.Reqs) != 1 || !reflect.DeepEqual(got.Reqs[0].Waits, share.Reqs[0].Waits) || !got.Reqs[0].Job.Paused {
			t.Errorf("share %+v", got.Reqs)
		}
		return []carillon.PutResult{{Job: j}}, nil
	}}
	c, _ := serveAs(t, n, peer.Options{})
	if _, err := c.ApplyShare(t.Context(), farPartition, &share); err != nil {
		t.Error(err)
	}
}
