package grpcapi

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// maxBulkWarnings is how many warnings the answer to a bulk load holds.
const maxBulkWarnings = 100

// PutJobs implements the rpc. One message is stored at a time: while it is being made durable, the transport
// receives the next ones, up to its flow-control window.
func (s *Service) PutJobs(stream grpc.ClientStreamingServer[pb.PutJobsRequest, pb.PutJobsResponse]) error {
	out, ctx := &pb.PutJobsResponse{}, wire.Incoming(stream.Context())
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(out)
		}
		if err != nil {
			return afterStored(out.GetStored(), err)
		}
		var puts []carillon.PutResult
		of, end, err := s.audited(ctx, pb.SchedulerService_PutJobs_FullMethodName, m)
		if err == nil {
			puts, err = s.putBatch(of, m.GetNamespace(), m.GetJobs())
			err = end(nil, err)
		}
		if err != nil {
			return afterStored(out.GetStored(), err)
		}
		for i := range puts {
			tally(out, &puts[i])
		}
	}
}

// tally counts a put.
func tally(out *pb.PutJobsResponse, p *carillon.PutResult) {
	out.Stored++
	if p.Created {
		out.Created++
	}
	if p.Changed {
		out.Changed++
	}
	for _, w := range p.Warnings {
		if len(out.Warnings) < maxBulkWarnings {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s: %s", p.Job.Name, w))
		}
	}
}

// afterStored is the error that ends a load, saying how far it came.
func afterStored(n uint64, err error) error {
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok || n == 0 {
		return err
	}
	whole := *e
	whole.Message = fmt.Sprintf("%s (the %d jobs sent in earlier messages are stored)", e.Message, n)
	return &whole
}
