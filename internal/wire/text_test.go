package wire

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// TestTextThatCannotBeSent is refused by the field that it is in.
func TestTextThatCannotBeSent(t *testing.T) {
	const bad = "caf\xe9"
	for field, m := range map[string]proto.Message{
		"name":                    &pb.GetJobRequest{Namespace: "ns", Name: bad},
		"time_zone":               &pb.PutJobRequest{Job: &pb.Job{Name: "café", TimeZone: bad}},
		"metadata":                &pb.PutJobRequest{Job: &pb.Job{Metadata: map[string]string{"a": bad}}},
		"labels":                  &pb.PutJobRequest{Job: &pb.Job{Labels: map[string]string{bad: "a"}}},
		"depends_on[1]":           &pb.PutJobRequest{Job: &pb.Job{DependsOn: []string{"a", bad}}},
		"jobs[1].concurrency_key": &pb.BatchPutJobsRequest{Jobs: []*pb.Job{{Name: "a"}, {ConcurrencyKey: bad}}},
		"target.worker.queue":     &pb.PutJobRequest{Job: &pb.Job{Target: &pb.Target{Kind: &pb.Target_Worker{Worker: &pb.WorkerTarget{Queue: bad}}}}},
	} {
		if _, err := proto.Marshal(m); err == nil {
			t.Errorf("%s: it can be sent", field)
		}
		e, ok := errors.AsType[*carillon.Error](CheckText(m))
		if !ok || e.Kind != carillon.InvalidArgument || e.Field != field {
			t.Errorf("%s: %v", field, e)
		}
	}
	if err := CheckText(&pb.PutJobRequest{Job: &pb.Job{Name: "café", Data: []byte(bad),
		DependsOn: []string{"\uFFFD"}}}); err != nil {
		t.Errorf("it can be sent: %v", err)
	}
}
