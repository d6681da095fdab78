package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// patience is how long a call that cannot be sent waits for a connection: long enough for a node to restart.
const patience = 3 * time.Second

// call wraps every unary call. It turns errors into [*carillon.Error], and repeats a call that has certainly
// not reached a server.
func call(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption) error {
	began := time.Now()
	ctx = wire.Outgoing(ctx)
	for {
		var reached peer.Peer
		err := invoke(ctx, method, req, reply, conn, append(opts, grpc.Peer(&reached))...)
		if err == nil {
			return nil
		}
		if bad := unsendable(err, req); bad != nil {
			return bad
		}
		sent := reached.Addr != nil
		err = failed(err, sent && !reads[method])
		if sent || carillon.KindOf(err) != carillon.Unavailable || !connected(ctx, conn, began.Add(patience)) {
			return err
		}
	}
}

// unsendable returns which text of a request is not UTF-8 and kept it from being sent; nil if that is not why
// it failed.
func unsendable(err error, req any) error {
	if status.Code(err) != codes.Internal {
		return nil
	}
	return wire.CheckText(req)
}

// reads are the unary calls that change nothing.
var reads = map[string]bool{
	pb.SchedulerService_GetJob_FullMethodName:          true,
	pb.SchedulerService_ListJobs_FullMethodName:        true,
	pb.SchedulerService_GetRun_FullMethodName:          true,
	pb.SchedulerService_ListRuns_FullMethodName:        true,
	pb.SchedulerService_GetBackfill_FullMethodName:     true,
	pb.SchedulerService_ListBackfills_FullMethodName:   true,
	pb.SchedulerService_GetNamespace_FullMethodName:    true,
	pb.SchedulerService_PreviewSchedule_FullMethodName: true,
	pb.SchedulerService_ListTimes_FullMethodName:       true,
	pb.ClusterService_GetCluster_FullMethodName:        true,
	pb.ClusterService_ListQueues_FullMethodName:        true,
	pb.ClusterService_ListWorkers_FullMethodName:       true,
	pb.ClusterService_ListIngests_FullMethodName:       true,
	pb.AccessService_ListKeys_FullMethodName:           true,
	pb.AuditService_ListAudit_FullMethodName:           true,
	pb.AuditService_VerifyAudit_FullMethodName:         true,
}

// failed turns a gRPC error into a [*carillon.Error]. changing: the call may have changed something; one that
// reached no server has not.
func failed(err error, changing bool) error {
	err = wire.ErrorFromStatus(err)
	if e, ok := errors.AsType[*carillon.Error](err); ok && !changing {
		e.Unknown = false
	}
	return err
}

// pause is how long a call waits that a live connection has not carried. Its end may be noticed meanwhile.
const pause = 10 * time.Millisecond

// connected waits for a connection, until a deadline.
func connected(ctx context.Context, conn *grpc.ClientConn, until time.Time) bool {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for waited := false; ctx.Err() == nil; waited = true {
		switch state := conn.GetState(); state {
		case connectivity.Ready:
			if waited {
				return true
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		case connectivity.Shutdown:
			return false
		default:
			conn.Connect()
			conn.WaitForStateChange(ctx, state)
		}
	}
	return false
}
