package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	daprpb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
)

// daprBinary is the environment variable that names the scheduler's binary.
const daprBinary = "CARILLON_TEST_DAPR_SCHEDULER"

// daprConnections is how many connections there are, with a stream of runs on each.
const daprConnections = 4

// daprContestants speak Dapr's protocol.
func daprContestants(binary string) []contestant {
	return []contestant{asDapr(binary), daprContestant()}
}

func daprContestant() contestant {
	return contestant{peer: "Dapr", settings: "default", durable: daprDurable, ahead: time.Second,
		about: "embedded etcd, " + daprAbout,
		start: func(ctx context.Context) (subject, string, error) { return startDapr(ctx, os.Getenv(daprBinary)) }}
}

// asDapr is Carillon in place of Dapr's scheduler.
func asDapr(binary string) contestant {
	return contestant{peer: "Carillon", settings: "as Dapr", durable: daprDurable, ahead: time.Second,
		about: daprAbout,
		start: func(ctx context.Context) (subject, string, error) {
			binary, err := carillonBinary(binary)
			if err != nil {
				return nil, "", err
			}
			s, _, err := startDapr(ctx, binary, "dapr-scheduler")
			return s, says(ctx, binary, "version"), err
		}}
}

const daprDurable = "fsync before the acknowledgement; the end of a run is not acknowledged"

var daprAbout = fmt.Sprintf("Dapr's protocol, %d connections, a stream of runs on each", daprConnections)

// daprScheduler is a server that speaks the protocol of Dapr's scheduler. A queue is an app.
type daprScheduler struct {
	*server
	conns []*grpc.ClientConn
	turn  atomic.Uint32
	at    string // where it listens
	page  string // that says whether it is healthy
}

// startDapr starts a command that takes the flags of Dapr's scheduler.
func startDapr(ctx context.Context, command string, args ...string) (subject, string, error) {
	if command == "" {
		return nil, "", absent{daprBinary + " does not name its binary"}
	}
	dir, err := tempDir("dapr")
	if err != nil {
		return nil, "", err
	}
	ports, err := freePorts(4)
	if err != nil {
		return nil, "", err
	}
	port := func(i int) string { return strconv.Itoa(ports[i]) }
	process, err := startServer(dir, nil,
		command, append(args, "--listen-address", "127.0.0.1", "--port", port(0),
			"--healthz-listen-address", "127.0.0.1", "--healthz-port", port(1),
			"--etcd-client-listen-address", "127.0.0.1", "--etcd-client-port", port(2),
			"--etcd-initial-cluster", "dapr-scheduler-server-0=http://127.0.0.1:"+port(3), "--etcd-data-dir",
			filepath.Join(dir, "etcd"), "--identity-directory-write", filepath.Join(dir, "identity"),
			"--enable-metrics=false", "--log-level", "error")...)
	if err != nil {
		return nil, "", err
	}
	d := &daprScheduler{server: process, at: "127.0.0.1:" + port(0),
		page: "http://127.0.0.1:" + port(1) + "/healthz"}
	if err := d.connect(ctx); err != nil {
		return nil, "", errors.Join(err, d.close())
	}
	return d, "Dapr scheduler " + filepath.Base(command), nil
}

// connect waits until the server is healthy and connects to it.
func (d *daprScheduler) connect(ctx context.Context) error {
	return errors.Join(d.ready(ctx, answers(d.page)), d.dial(d.at))
}

// again starts a server that was killed and connects to it.
func (d *daprScheduler) again(ctx context.Context) error {
	for _, c := range d.conns {
		_ = c.Close() // it leads nowhere
	}
	d.conns = nil
	return errors.Join(d.server.again(), d.connect(ctx))
}

func (d *daprScheduler) dial(address string) error {
	for range daprConnections {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32))) // a list of jobs is one message
		if err != nil {
			return err
		}
		d.conns = append(d.conns, conn)
	}
	return nil
}

// client is each in turn.
func (d *daprScheduler) client() daprpb.SchedulerClient {
	return daprpb.NewSchedulerClient(d.conns[int(d.turn.Add(1))%len(d.conns)])
}

// daprNamespace is where all jobs are.
const daprNamespace = "default"

func daprMetadata(queue string) *daprpb.JobMetadata {
	return &daprpb.JobMetadata{AppId: queue, Namespace: daprNamespace,
		Target: &daprpb.JobTargetMetadata{Type: &daprpb.JobTargetMetadata_Job{Job: &daprpb.TargetJob{}}}}
}

func (d *daprScheduler) put(ctx context.Context, queue string, j job) error {
	data, err := anypb.New(wrapperspb.Int64(int64(j.n)))
	if err != nil {
		return err
	}
	return d.schedule(ctx, queue, j, &daprpb.Job{Data: data})
}

// schedule puts a job that is first due when j is.
func (d *daprScheduler) schedule(ctx context.Context, queue string, j job, what *daprpb.Job) error {
	what.DueTime = new(j.due.UTC().Format(time.RFC3339Nano))
	_, err := d.client().ScheduleJob(ctx, &daprpb.ScheduleJobRequest{Name: strconv.Itoa(j.n),
		Metadata: daprMetadata(queue), Overwrite: true, Job: what})
	return err
}

// deleteAll removes all jobs of a queue.
func (d *daprScheduler) deleteAll(ctx context.Context, queue string) error {
	_, err := d.client().DeleteByMetadata(ctx, &daprpb.DeleteByMetadataRequest{Metadata: daprMetadata(queue)})
	return err
}

// putMany is not there: Dapr takes one job to a call.
func (*daprScheduler) putMany(context.Context, string, []job) error { return errors.ErrUnsupported }

func (d *daprScheduler) work(ctx context.Context, queue string, handle func(n int)) (func() error, error) {
	ctx, leave := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	for _, conn := range d.conns {
		stream, err := daprpb.NewSchedulerClient(conn).WatchJobs(ctx)
		if err == nil {
			err = stream.Send(&daprpb.WatchJobsRequest{WatchJobRequestType: &daprpb.WatchJobsRequest_Initial{Initial: &daprpb.WatchJobsRequestInitial{
				AppId: queue, Namespace: daprNamespace,
				AcceptJobTypes: []daprpb.JobTargetType{daprpb.JobTargetType_JOB_TARGET_TYPE_JOB}}}})
		}
		if err != nil {
			leave()
			return nil, err
		}
		group.Go(func() error { return unlessOver(ctx, watch(stream, handle)) })
	}
	return func() error {
		leave()
		return group.Wait()
	}, nil
}

// unlessOver is err, or nil once nobody wants to know.
func unlessOver(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// watch answers each run of a stream with success, until the stream ends.
func watch(stream grpc.BidiStreamingClient[daprpb.WatchJobsRequest, daprpb.WatchJobsResponse],
	handle func(n int)) error {
	for {
		run, err := stream.Recv()
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(run.GetName())
		if err != nil {
			return err
		}
		handle(n)
		err = stream.Send(&daprpb.WatchJobsRequest{WatchJobRequestType: &daprpb.WatchJobsRequest_Result{Result: &daprpb.WatchJobsRequestResult{
			Id: run.GetId(), Status: daprpb.WatchJobsRequestResultStatus_SUCCESS}}})
		if err != nil {
			return err
		}
	}
}

// unfinished counts by listing: a job is removed when its only run has been answered.
func (d *daprScheduler) unfinished(ctx context.Context, queue string) (int, error) {
	list, err := d.client().ListJobs(ctx, &daprpb.ListJobsRequest{Metadata: daprMetadata(queue)})
	return len(list.GetJobs()), err
}

func (d *daprScheduler) close() error {
	for _, c := range d.conns {
		_ = c.Close() // the results are in
	}
	return d.server.close()
}
