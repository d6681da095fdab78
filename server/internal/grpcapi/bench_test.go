package grpcapi

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// job300 is a put of about 300 bytes.
func job300(name string) *pb.PutJobRequest {
	return &pb.PutJobRequest{Name: name, Job: &pb.Job{
		DueTime: "2027-01-02T03:04:05Z", Data: make([]byte, 160), ContentType: "application/json",
		Metadata: map[string]string{"user": "42"}, Labels: map[string]string{"team": "billing"},
		Target: &pb.Target{Kind: &pb.Target_Worker{Worker: &pb.WorkerTarget{Queue: "emails"}}},
	}}
}

// BenchmarkPutJobService is what the face itself costs: message to words, words to message.
func BenchmarkPutJobService(b *testing.B) {
	s := NewService(&stub{putJob: stored}, Options{})
	m := job300("reminders/42")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.PutJob(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPutJobDecode is what protobuf costs beside it.
func BenchmarkPutJobDecode(b *testing.B) {
	raw, err := proto.Marshal(job300("reminders/42"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := proto.Unmarshal(raw, &pb.PutJobRequest{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPutJob is a whole call over a connection in memory, client included.
func BenchmarkPutJob(b *testing.B) {
	c := dial(b, &stub{putJob: stored}, Options{})
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(p *testing.PB) {
		m := job300("reminders/42")
		for p.Next() {
			if _, err := c.PutJob(b.Context(), m); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkPutJobs is a bulk load in messages of 256; one operation is one job.
func BenchmarkPutJobs(b *testing.B) {
	c := dial(b, &stub{putJobs: func(_ context.Context, jobs []carillon.Job) ([]carillon.PutResult, error) {
		return make([]carillon.PutResult, len(jobs)), nil
	}}, Options{})
	m := &pb.PutJobsRequest{}
	for i := range 256 {
		put := job300(fmt.Sprint("reminders/", i))
		put.Job.Name = put.Name
		m.Jobs = append(m.Jobs, put.Job)
	}
	stream, err := c.PutJobs(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for sent := 0; sent < b.N; sent += len(m.Jobs) {
		if err := stream.Send(m); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkDeliver is a message of 256 runs to a worker; one operation is one run.
func BenchmarkDeliver(b *testing.B) {
	runs := make([]carillon.Run, 256)
	for i := range runs {
		runs[i] = carillon.Run{ID: "0123456789abcdef0123456789abcdef0123456789abcdef", Namespace: "default",
			Job: "reminders/42", Token: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
			Queue: "emails", Attempt: 1, Data: carillon.JSON(map[string]int{"user": 42})}
		runs[i].Scheduled = runs[i].Scheduled.AddDate(2026, 0, 0)
		runs[i].Due, runs[i].Started, runs[i].Deadline = runs[i].Scheduled, runs[i].Scheduled, runs[i].Scheduled
	}
	resp := &carillon.WorkResponse{Runs: runs}
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(runs) {
		if _, err := proto.Marshal(wire.WorkResponseToProto(resp)); err != nil {
			b.Fatal(err)
		}
	}
}
