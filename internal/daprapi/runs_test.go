package daprapi

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
)

func TestRunReachesItsSidecar(t *testing.T) {
	bubble(t, func(r *rig) {
		s := r.watchApp("app")
		data := &anypb.Any{TypeUrl: "bogus/none", Value: []byte{1, 2, 3}}
		r.put("A job:1", appOf("app"), &pb.Job{DueTime: proto.String("0s"), Data: data})
		m := s.next()
		if m.GetName() != "A job:1" || !proto.Equal(m.GetData(), data) || !proto.Equal(m.GetMetadata(), appOf("app")) {
			t.Errorf("got %v", m)
		}
		s.succeed(m.GetId())
		r.put("next", appOf("app"), &pb.Job{DueTime: proto.String("1s")})
		s.succeed(s.expect("next"))
	})
}

func TestRetriesByDefault(t *testing.T) {
	bubble(t, func(r *rig) {
		s := r.watchApp("app")
		begin := time.Now()
		r.put("failing", appOf("app"), &pb.Job{DueTime: proto.String("0s")})
		for i := range 4 {
			id := s.expect("failing")
			sameTime(t, "an attempt", begin, time.Duration(i)*time.Second)
			s.fail(id)
		}
		r.put("other", appOf("app"), &pb.Job{DueTime: proto.String("10s")})
		s.succeed(s.expect("other"))
		if r.get("failing", appOf("app")) != nil {
			t.Error("the job is still there")
		}
	})
}
