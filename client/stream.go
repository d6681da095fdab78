package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// Bounds on one message of a bulk load: while one is made durable the next ones are on their way.
const (
	batchJobs  = 256
	batchBytes = 1 << 20
)

// Loaded is the outcome of a bulk load.
type Loaded struct {
	Stored   int // jobs
	Created  int // of those, the ones with a new name
	Changed  int // of those, the ones that did not exist in the same form
	Warnings []string
}

// PutStream stores any number of jobs, many at a time, and returns when all are durable. It is the fastest
// way to load jobs. After an error the earlier batches are stored, and the error says how many jobs that are.
// Repeating the whole load is as harmless as repeating PutJob.
func (c *Client) PutStream(ctx context.Context, jobs iter.Seq[carillon.Job]) (Loaded, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.service.PutJobs(wire.Outgoing(ctx))
	if err != nil {
		return Loaded{}, failed(err, false)
	}
	l := load{stream: stream}
	for job := range jobs {
		if err = l.add(job); err != nil {
			break
		}
	}
	if err == nil {
		err = l.flush()
	}
	if err != nil && !errors.Is(err, io.EOF) { // then the server has ended the load; CloseAndRecv returns why
		return Loaded{}, failed(err, true)
	}
	m, err := stream.CloseAndRecv()
	if err != nil {
		return Loaded{}, failed(err, true)
	}
	return Loaded{Stored: int(m.GetStored()), Created: int(m.GetCreated()), Changed: int(m.GetChanged()),
		Warnings: m.GetWarnings()}, nil
}

// load fills messages with jobs.
type load struct {
	stream grpc.ClientStreamingClient[pb.PutJobsRequest, pb.PutJobsResponse]
	batch  []*pb.Job
	bytes  int
	added  int
}

func (l *load) add(job carillon.Job) error {
	m, err := jobToProto(job)
	if err != nil {
		return wire.Within(fmt.Sprintf("jobs[%d]", l.added), err)
	}
	size := len(m.GetData())
	if l.bytes+size > batchBytes && len(l.batch) > 0 {
		if err := l.flush(); err != nil {
			return err
		}
	}
	l.batch, l.bytes, l.added = append(l.batch, m), l.bytes+size, l.added+1
	if len(l.batch) >= batchJobs {
		return l.flush()
	}
	return nil
}

// flush sends the batch; io.EOF means that the server has ended the load.
func (l *load) flush() error {
	if len(l.batch) == 0 {
		return nil
	}
	err := l.stream.Send(&pb.PutJobsRequest{Jobs: l.batch})
	for i, m := range l.batch {
		if bad := unsendable(err, m); bad != nil {
			return wire.Within(fmt.Sprintf("jobs[%d]", l.added-len(l.batch)+i), bad)
		}
	}
	l.batch, l.bytes = nil, 0
	return err
}
