package daprapi

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/anypb"

	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
)

// BenchmarkHerd is many runs that are due at once, delivered to one stream and answered. It counts both ends.
func BenchmarkHerd(b *testing.B) {
	const herd = 20_000
	for range b.N {
		b.StopTimer()
		r := start(b, "memory:", Options{})
		s := r.watchApp("app")
		due := time.Now().Add(3 * time.Second)
		text := due.UTC().Format(time.RFC3339Nano)
		var puts errgroup.Group
		puts.SetLimit(64)
		for i := range herd {
			puts.Go(func() error {
				_, err := r.client.ScheduleJob(b.Context(),
					&pb.ScheduleJobRequest{Name: fmt.Sprint("n", i), Metadata: appOf("app"),
						Job: &pb.Job{DueTime: &text, Data: &anypb.Any{TypeUrl: "t", Value: make([]byte, 100)}}})
				return err
			})
		}
		if err := puts.Wait(); err != nil {
			b.Fatal(err)
		}
		first := s.next()
		b.StartTimer()
		begin := time.Now()
		s.succeed(first.GetId())
		for range herd - 1 {
			s.succeed(s.next().GetId())
		}
		b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms/herd")
		b.ReportMetric(float64(time.Since(due).Milliseconds()), "ms-late/last")
		b.StopTimer()
		r.stop()
	}
}
