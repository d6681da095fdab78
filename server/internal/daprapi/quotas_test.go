package daprapi

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
)

// TestAQuotaHoldsForSidecars: what it refuses is ResourceExhausted, which no sidecar takes for bad input, and
// says what the limit is; what exists is changed and deleted.
func TestAQuotaHoldsForSidecars(t *testing.T) {
	for name, c := range map[string]struct {
		quotas carillon.Quotas
		says   string
	}{
		"of jobs": {carillon.Quotas{Jobs: 2}, `quotas.jobs: namespace "default" has 2 of 2 jobs`},
		"of bytes": {carillon.Quotas{PayloadBytes: 1},
			`quotas.payload_bytes: namespace "default" has 0 of 1 bytes of data`},
		"of puts": {carillon.Quotas{Puts: carillon.Rate{Count: 2, Period: time.Hour}},
			`quotas.puts: namespace "default" may change 2 jobs in 1h`},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				if _, err := r.jobs.PutNamespace(t.Context(), carillon.Namespace{Name: "default",
					Quotas: c.quotas}); err != nil {
					t.Fatal(err)
				}
				r.put("a", appOf("app"), far())
				r.put("b", actorOf("cat", "1"), far())
				job := far()
				job.Data = &anypb.Any{TypeUrl: "t", Value: make([]byte, 10)}
				for kind, m := range map[string]*pb.JobMetadata{"a job": appOf("app"), "a reminder": actorOf("cat", "2")} {
					_, err := r.client.ScheduleJob(t.Context(), &pb.ScheduleJobRequest{Name: "c", Metadata: m, Job: job})
					if status.Code(err) != codes.ResourceExhausted ||
						!strings.HasPrefix(status.Convert(err).Message(), c.says) {
						t.Errorf("%s: %v", kind, err)
					}
				}
				if c.quotas.Puts.Count > 0 {
					time.Sleep(time.Hour)
				}
				if _, err := r.client.ScheduleJob(t.Context(), &pb.ScheduleJobRequest{Name: "b", Overwrite: true,
					Metadata: actorOf("cat", "1"), Job: far()}); err != nil {
					t.Error(err)
				}
				if _, err := r.client.DeleteJob(t.Context(), &pb.DeleteJobRequest{Name: "a", Metadata: appOf("app")}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
