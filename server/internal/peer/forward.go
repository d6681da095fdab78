package peer

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// methodOf returns the name of a method without its service.
func methodOf(full string) string { return full[strings.LastIndexByte(full, '/')+1:] }

// Forward implements the rpc. The time within which the request must arrive does not bound the call; the
// caller's deadline does.
func (s *Server) Forward(ctx context.Context, m *peerv1.ForwardRequest) (*peerv1.ForwardResponse, error) {
	_, cancel, err := s.admit(ctx, m)
	if err != nil {
		return nil, marked(err)
	}
	defer cancel()
	methods := pb.SchedulerService_ServiceDesc.Methods // the unary ones
	i := slices.IndexFunc(methods, func(d grpc.MethodDesc) bool { return d.MethodName == m.GetMethod() })
	if i < 0 {
		return nil, marked(older("the method " + m.GetMethod()))
	}
	api := forwarded{Services: s.served.Services, partitions: s.served.Partitions, replace: m.GetReplace()}
	if m.GetSeenAt() != nil {
		api.seenAt = m.GetSeenAt().AsTime()
	}
	ctx, told, err := hearAudited(ctx)
	if err != nil {
		return nil, marked(err)
	}
	reply, err := methods[i].Handler(grpcapi.NewService(api, s.served.Options), ctx,
		func(into any) error { return decode(m.GetMessage(), into) }, nil)
	told()
	if err != nil {
		return nil, marked(err)
	}
	message, err := encode(reply)
	if err != nil {
		return nil, fmt.Errorf("the answer of %s: %w", m.GetMethod(), err)
	}
	return &peerv1.ForwardResponse{Message: message}, nil
}

func decode(message []byte, into any) error {
	m, ok := into.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", into)
	}
	if err := proto.Unmarshal(message, m); err != nil {
		return carillon.Errorf(carillon.InvalidArgument, "message", "%w", err)
	}
	return understand(m)
}

func encode(reply any) ([]byte, error) {
	m, ok := reply.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", reply)
	}
	return proto.Marshal(m)
}

// forwarder is the connection over which calls of the public API are forwarded.
type forwarder struct {
	noStreams
	calls   *Calls
	seenAt  time.Time // see [message.PutJob]
	replace bool      // an option of a put that the public API does not have
}

// Invoke implements [grpc.ClientConnInterface].
func (f forwarder) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	in, ok := args.(proto.Message)
	out, too := reply.(proto.Message)
	if !ok || !too {
		return fmt.Errorf("forward %s: %T is no message", method, args)
	}
	message, err := proto.Marshal(in)
	if err != nil {
		return fmt.Errorf("forward %s: %w", method, err)
	}
	req := &peerv1.ForwardRequest{NotAfter: f.calls.notAfter(ctx), Method: methodOf(method), Message: message,
		Replace: f.replace}
	if !f.seenAt.IsZero() {
		req.SeenAt = timestamppb.New(f.seenAt)
	}
	answer, err := f.calls.service.Forward(ctx, req)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(answer.GetMessage(), out); err != nil {
		return fmt.Errorf("the answer to %s: %w", method, err)
	}
	return nil
}

func (c *Calls) putJob(ctx context.Context, m message.PutJob) (carillon.PutResult, error) {
	api := client.Over(forwarder{calls: c, seenAt: m.SeenAt, replace: m.Options.Replace})
	m.Options.Replace = false // the forwarder says it
	return api.PutJob(ctx, m.Job, m.Options)
}

func (c *Calls) putJobs(ctx context.Context, m message.PutJobs) ([]carillon.PutResult, error) {
	return client.Over(forwarder{calls: c, seenAt: m.SeenAt}).PutJobs(ctx, m.Jobs)
}

func (c *Calls) patchJob(ctx context.Context, m message.PatchJob) (carillon.PutResult, error) {
	return client.Over(forwarder{calls: c, seenAt: m.SeenAt}).PatchJob(ctx, m.Key, m.Patch)
}

// forwarded serves one forwarded call as a scheduler without workers, whose sessions are not forwarded. Puts
// become messages, which also say what the public API does not.
type forwarded struct {
	cluster.Services
	partitions int
	seenAt     time.Time
	replace    bool
}

// PutJob implements [carillon.Jobs].
func (f forwarded) PutJob(ctx context.Context, job carillon.Job,
	opts ...carillon.PutOption) (carillon.PutResult, error) {
	o := carillon.PutOptions{}.With(opts...)
	o.Replace = f.replace
	return message.Send(ctx, f.Services, f.partitionOf(job.Key()),
		message.PutJob{Job: job, Options: o, SeenAt: f.seenAt})
}

// PutJobs implements [carillon.Jobs].
func (f forwarded) PutJobs(ctx context.Context, jobs []carillon.Job) ([]carillon.PutResult, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	return message.Send(ctx, f.Services, f.partitionOf(jobs[0].Key()),
		message.PutJobs{Jobs: jobs, SeenAt: f.seenAt})
}

// PatchJob implements [carillon.Jobs].
func (f forwarded) PatchJob(ctx context.Context, key carillon.Key,
	patch carillon.Patch) (carillon.PutResult, error) {
	return message.Send(ctx, f.Services, f.partitionOf(key),
		message.PatchJob{Key: key, Patch: patch, SeenAt: f.seenAt})
}

func (f forwarded) partitionOf(key carillon.Key) int {
	key.Namespace = cmp.Or(key.Namespace, carillon.DefaultNamespace)
	return store.PartitionOf(key, f.partitions)
}

// Watch implements [carillon.Events]: streams are not forwarded.
func (forwarded) Watch(context.Context, carillon.WatchQuery, func(carillon.EventBatch) error) error {
	return carillon.Errorf(carillon.InvalidArgument, "", "events are not forwarded: every node tells them")
}

// Connect implements [carillon.Work].
func (forwarded) Connect(context.Context, carillon.Hello) (carillon.Session, error) {
	return nil, wire.NotSupported("connect")
}

// BulkRuns implements [carillon.Bulk]: the node that is called makes the calls that it consists of, and
// forwards those.
func (forwarded) BulkRuns(context.Context, carillon.BulkRuns) (carillon.BulkResult, error) {
	return carillon.BulkResult{}, wire.NotSupported("bulk")
}

// BulkJobs implements [carillon.Bulk], as BulkRuns.
func (forwarded) BulkJobs(context.Context, carillon.BulkJobs) (carillon.BulkResult, error) {
	return carillon.BulkResult{}, wire.NotSupported("bulk")
}

// PutPayload implements [carillon.Payloads]; every node puts payloads itself, and reads and collects them.
func (f forwarded) PutPayload(context.Context, string, io.Reader) (carillon.PayloadRef, error) {
	return carillon.PayloadRef{}, wire.NotSupported("payload")
}

// GetPayload implements [carillon.Payloads].
func (f forwarded) GetPayload(context.Context, string, carillon.PayloadRef) (io.ReadCloser, error) {
	return nil, wire.NotSupported("payload")
}

// CollectPayloads implements [carillon.Payloads].
func (f forwarded) CollectPayloads(context.Context) (carillon.PayloadCollection, error) {
	return carillon.PayloadCollection{}, wire.NotSupported("payload")
}
