package peer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/peer"
	"github.com/carillonhq/carillon/server/store"
)

// filler gives every field a value of its own, so that a field that is not transferred shows, including one
// that is added later.
type filler struct{ n int }

func (f *filler) fill(v reflect.Value) {
	f.n++
	switch x := v.Addr().Interface().(type) {
	case *store.RunID:
		*x = store.RunID{Partition: 3, UID: carillon.UID{1: byte(f.n)}, Scheduled: int64(f.n)}
		return
	case *time.Time:
		*x = time.Unix(int64(f.n), 5).UTC()
		return
	case *carillon.Outcome:
		*x = carillon.OutcomeFailure
		return
	case *delivery.Reporter:
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

func (f *far) Ask(_ context.Context, p int, m message.Message) (any, error) {
	switch m := m.(type) {
	case message.RegisterDependencies:
		same(f, p, m)
		return []bool{true, false}, nil
	case message.DeliverNotice:
		same(f, p, m)
		return message.Nobody, nil
	case message.StillWaits:
		same(f, p, m)
		return true, nil
	case message.DeleteByPrefix:
		same(f, p, m)
		return 5, nil
	case message.RedriveDead:
		same(f, p, m)
		return 6, nil
	case message.RelayReports:
		same(f, p, m)
		return filled[message.RelayResult](), nil
	case message.RequestPermits:
		same(f, p, m)
		return filled[[]message.PermitGrant](), nil
	case message.DeliverPermits:
		same(f, p, m)
		return struct{}{}, nil
	case message.AskRoom:
		same(f, p, m)
		return filled[message.Room](), nil
	case message.CountUsage:
		same(f, p, m)
		return filled[message.Usage](), nil
	case message.TakeChanges:
		same(f, p, m)
		return filled[message.Changes](), nil
	case message.LimitStands:
		same(f, p, m)
		return filled[message.Standing](), nil
	case message.RecordEvents:
		same(f, p, m)
		return uint64(7), nil
	}
	return nil, fmt.Errorf("%T", m)
}

func (f *far) ReloadNamespace(_ context.Context, name string) error {
	if name != "ns" {
		f.t.Errorf("namespace %q", name)
	}
	return nil
}

// limitTable has every field filled.
var limitTable = message.LimitTable{Node: "a", Nonce: 1 << 60, Version: 3, Limits: []delivery.NamedLimit{
	{Limit: delivery.ActorLimit("ns", "cat", "k"), Most: 4, Stamp: -5},
	{Limit: delivery.ActorLimit("ns", "cat", ""), Most: 5, Stamp: 6}}}

func (f *far) HearLimits(_ context.Context, table *message.LimitTable) error {
	if !reflect.DeepEqual(*table, limitTable) {
		f.t.Errorf("limits %+v", table)
	}
	return nil
}

func (f *far) SettleSidecar(_ context.Context, from string, told bool) error {
	if from != "there" || !told {
		f.t.Errorf("settle %q, told %v", from, told)
	}
	return nil
}

// TestEveryFieldCrosses: every field of requests between partitions and of their answers.
func TestEveryFieldCrosses(t *testing.T) {
	c, _ := serveAs(t, &far{t: t}, peer.Options{})
	crosses(t, c, filled[message.RegisterDependencies](), []bool{true, false})
	crosses(t, c, filled[message.DeliverNotice](), message.Nobody)
	crosses(t, c, filled[message.StillWaits](), true)
	crosses(t, c, filled[message.DeleteByPrefix](), 5)
	crosses(t, c, filled[message.RedriveDead](), 6)
	crosses(t, c, filled[message.RelayReports](), filled[message.RelayResult]())
	crosses(t, c, filled[message.RequestPermits](), filled[[]message.PermitGrant]())
	crosses(t, c, filled[message.DeliverPermits](), struct{}{})
	crosses(t, c, filled[message.AskRoom](), filled[message.Room]())
	crosses(t, c, filled[message.CountUsage](), filled[message.Usage]())
	crosses(t, c, filled[message.TakeChanges](), filled[message.Changes]())
	crosses(t, c, filled[message.LimitStands](), filled[message.Standing]())
	crosses(t, c, filled[message.RecordEvents](), uint64(7))
	if err := errors.Join(c.ReloadNamespace(t.Context(), "ns"), c.HearLimits(t.Context(), &limitTable),
		c.SettleSidecar(t.Context(), "there", true)); err != nil {
		t.Error(err)
	}
}

// crosses sends a message, whose reply is to be want.
func crosses[R any](t *testing.T, c *peer.Client, m message.Query[R], want R) {
	t.Helper()
	if got, err := message.Send(t.Context(), c, farPartition, m); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%T: %+v, %v\nwant %+v", m, got, err, want)
	}
}

// TestEveryFieldOfAShareCrosses: except the options, which a batch does not have.
func TestEveryFieldOfAShareCrosses(t *testing.T) {
	j := job()
	j.Paused = true
	share := message.Share{Batch: "batch", Coordinator: 5, Late: true, Reqs: []message.PutRequest{{
		Job: &j, Random: [8]byte{1, 2}, At: 77, Spec: partition.EncodeSpec(&j), Waits: filled[[]store.Wait](),
	}}}
	n := &node{share: func(_ int, got *message.Share) ([]carillon.PutResult, error) {
		if len(got.Reqs) != 1 || !reflect.DeepEqual(got.Reqs[0].Waits, share.Reqs[0].Waits) ||
			!got.Reqs[0].Job.Paused {
			t.Errorf("share %+v", got.Reqs)
		}
		return []carillon.PutResult{{Job: j}}, nil
	}}
	c, _ := serveAs(t, n, peer.Options{})
	if _, err := message.Send(t.Context(), c, farPartition, message.ApplyShare{Share: &share}); err != nil {
		t.Error(err)
	}
}

// TestEveryMessageHasAFormOnTheWire: each type of package message is sent here, and served by package engine.
func TestEveryMessageHasAFormOnTheWire(t *testing.T) {
	read := func(names ...string) (text []byte) {
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, b...)
		}
		return text
	}
	files, err := filepath.Glob("../message/*.go")
	if err != nil {
		t.Fatal(err)
	}
	sent, served := read("messages.go"), read("../engine/messages.go")
	found := regexp.MustCompile(`func \((\w+)\) message\(\)`).FindAllSubmatch(read(files...), -1)
	for _, m := range found {
		if one := fmt.Appendf(nil, "case message.%s:", m[1]); !bytes.Contains(sent, one) ||
			!bytes.Contains(served, one) {
			t.Errorf("%s is not sent, or not served", m[1])
		}
	}
	if len(found) == 0 {
		t.Error("no message found")
	}
	c, _ := serve(t, &node{}, peer.Options{})
	if _, err := c.Ask(t.Context(), farPartition, nil); !errors.Is(err, carillon.Internal) {
		t.Errorf("no message: %v", err)
	}
}
