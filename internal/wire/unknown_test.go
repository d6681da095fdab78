package wire_test

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	_ "github.com/carillonhq/carillon/api/carillon/peer/v1" // what nodes say to each other
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// TestKnown: a field that is not in the contract is refused at any depth, by where it is.
func TestKnown(t *testing.T) {
	target := func() *pb.Target {
		return &pb.Target{Kind: &pb.Target_Worker{Worker: &pb.WorkerTarget{Queue: "q"}}}
	}
	deep := target()
	m := &pb.PutJobsRequest{Jobs: []*pb.Job{{Name: "a", Target: target()},
		{Name: "b", Target: deep, Labels: map[string]string{"a": "b"}}}}
	for at, inner := range map[string]proto.Message{
		"9999":                       m,
		"jobs[1].9999":               m.Jobs[1],
		"jobs[1].target.9999":        deep,
		"jobs[1].target.worker.9999": deep.GetWorker(),
		"jobs[0].target.worker.9999": m.Jobs[0].GetTarget().GetWorker(),
	} {
		if err := wire.Known(m); err != nil {
			t.Fatal(err)
		}
		inner.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 9999, protowire.VarintType),
			1))
		e, ok := errors.AsType[*carillon.Error](wire.Known(m))
		if !ok || e.Kind != carillon.InvalidArgument || e.Field != at {
			t.Errorf("%s: got %v", at, e)
		}
		inner.ProtoReflect().SetUnknown(nil)
	}
}

// TestKnownInAMap looks into the values of maps.
func TestKnownInAMap(t *testing.T) {
	m := &pb.PutNamespaceRequest{RateLimits: map[string]*pb.Rate{"a": {Count: 1}, "b": {Count: 2}}}
	if err := wire.Known(m); err != nil {
		t.Fatal(err)
	}
	m.RateLimits["b"].ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 9999,
		protowire.VarintType), 1))
	if e, ok := errors.AsType[*carillon.Error](wire.Known(m)); !ok || e.Field != "rate_limits.b.9999" {
		t.Errorf("got %v", e)
	}
}

func BenchmarkKnown(b *testing.B) {
	m := &pb.PutJobRequest{Name: "a", Job: &pb.Job{
		DueTime: "2027-01-02T03:04:05Z", Data: make([]byte, 160), Metadata: map[string]string{"user": "42"},
		Target: &pb.Target{Kind: &pb.Target_Worker{Worker: &pb.WorkerTarget{Queue: "emails"}}},
	}}
	b.ReportAllocs()
	for b.Loop() {
		if err := wire.Known(m); err != nil {
			b.Fatal(err)
		}
	}
}
