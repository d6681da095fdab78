package daprapi

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
)

// retryDelay is after how long an answer has a sidecar come again; 0: it does not say.
func retryDelay(err error) time.Duration {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// TestAQuotaHoldsForSidecars: what it refuses is ResourceExhausted, which no sidecar takes for bad input, and
// says what the limit is, and of a rate when to come again; what exists is changed and deleted.
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
				var after time.Duration
				for kind, m := range map[string]*pb.JobMetadata{"a job": appOf("app"), "a reminder": actorOf("cat", "2")} {
					_, err := r.client.ScheduleJob(t.Context(), &pb.ScheduleJobRequest{Name: "c", Metadata: m, Job: job})
					if status.Code(err) != codes.ResourceExhausted ||
						!strings.HasPrefix(status.Convert(err).Message(), c.says) {
						t.Errorf("%s: %v", kind, err)
					}
					if after = retryDelay(err); (after > 0) != (c.quotas.Puts.Count > 0) || after > time.Hour {
						t.Errorf("%s: to come again after %v", kind, after)
					}
				}
				time.Sleep(after) // then there is room for one
				if _, err := r.client.ScheduleJob(t.Context(), &pb.ScheduleJobRequest{Name: "b", Overwrite: true,
					Metadata: actorOf("cat", "1"), Job: far()}); err != nil {
					t.Error(err)
				}
				if c.quotas.Puts.Count > 0 {
					time.Sleep(time.Hour)
				}
				if _, err := r.client.DeleteJob(t.Context(), &pb.DeleteJobRequest{Name: "a", Metadata: appOf("app")}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
