package wire_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// reminder is what most jobs are: a one-shot with a small payload.
func reminder() carillon.Job {
	return carillon.Job{Namespace: "default", Name: "reminders/42",
		Due: carillon.WhenText("2030-01-01T00:00:00Z"), Target: carillon.WorkerQueue("q"),
		Data: carillon.Bytes(make([]byte, 100), carillon.ContentTypeJSON)}
}

// BenchmarkPutRequest is what a put costs from its bytes to a job that has been checked.
func BenchmarkPutRequest(b *testing.B) {
	j := reminder()
	raw, err := proto.Marshal(wire.JobToProto(&j))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		var m pb.Job
		if err := proto.Unmarshal(raw, &m); err != nil {
			b.Fatal(err)
		}
		j, err := wire.JobFromProto(&m)
		if err != nil {
			b.Fatal(err)
		}
		if err := j.Validate(carillon.Bounds{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJobFromProto(b *testing.B) {
	j := reminder()
	m := wire.JobToProto(&j)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.JobFromProto(m); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPutToProto makes the message that answers a put.
func BenchmarkPutToProto(b *testing.B) {
	p := carillon.PutResult{Job: reminder(), Created: true, Changed: true}
	at := time.Unix(1_800_000_000, 0)
	p.Job.Status = &carillon.JobStatus{Generation: 1, Created: at, Updated: at, NextRun: at}
	b.ReportAllocs()
	for b.Loop() {
		_ = wire.PutToProto(&p)
	}
}
