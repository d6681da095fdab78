package server_test

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/daprapi"
	"github.com/carillonhq/carillon/server/internal/server"
)

// held is a reminder that a sidecar has.
type held struct {
	stream grpc.BidiStreamingClient[pb.WatchJobsRequest, pb.WatchJobsResponse]
	id     uint64
}

// watchCats connects a sidecar to a node, with a limit of its actor type. Its runs go to got.
func watchCats(ctx context.Context, t *testing.T, c pb.SchedulerClient, most int32, got chan<- held) {
	t.Helper()
	stream, err := c.WatchJobs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&pb.WatchJobsRequest{WatchJobRequestType: &pb.WatchJobsRequest_Initial{
		Initial: &pb.WatchJobsRequestInitial{AppId: "app", Namespace: "default", ActorTypes: []string{"cat"},
			ConcurrencyLimits: []*pb.ConcurrencyLimit{{MaxConcurrent: most, Target: &pb.ConcurrencyLimit_Actor{
				Actor: &pb.ConcurrencyLimitActor{Type: "cat"}}}}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			got <- held{stream, m.GetId()}
		}
	}()
}

// TestALimitOfSidecarsHoldsOnThreeNodes, as Dapr's suite has it: of 60 reminders that are put through three
// nodes, with a stream at each, six are in force at a time, and never seven, until all have run.
func TestALimitOfSidecarsHoldsOnThreeNodes(t *testing.T) {
	const most, reminders = 6, 60
	x := startTrio(t, server.Config{Extensions: server.Extensions{APIs: []server.API{
		func(n *server.Node, r grpc.ServiceRegistrar) func() { return daprapi.Serve(n, r, daprapi.Options{}) },
	}}}, 3)
	got := make(chan held, reminders)
	var clients []pb.SchedulerClient
	for _, n := range x.nodes {
		conn, err := grpc.NewClient(n.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		clients = append(clients, pb.NewSchedulerClient(conn))
		watchCats(t.Context(), t, clients[len(clients)-1], most, got)
	}
	for i := range reminders {
		if _, err := clients[i%3].ScheduleJob(t.Context(), &pb.ScheduleJobRequest{
			Name: fmt.Sprint("job-", i), Job: &pb.Job{DueTime: new("0s")},
			Metadata: &pb.JobMetadata{AppId: "app", Namespace: "default", Target: &pb.JobTargetMetadata{
				Type: &pb.JobTargetMetadata_Actor{Actor: &pb.TargetActorReminder{Type: "cat",
					Id: fmt.Sprint("id-", i)}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	var inForce []held
	for done := range reminders {
		for len(inForce) < min(most, reminders-done) {
			inForce = append(inForce, await(t, got))
		}
		if len(got) > 0 {
			t.Fatalf("%d are in force, and %d more", len(inForce), len(got))
		}
		if err := inForce[0].stream.Send(&pb.WatchJobsRequest{WatchJobRequestType: &pb.WatchJobsRequest_Result{
			Result: &pb.WatchJobsRequestResult{Id: inForce[0].id}}}); err != nil {
			t.Fatal(err)
		}
		inForce = inForce[1:]
	}
}
