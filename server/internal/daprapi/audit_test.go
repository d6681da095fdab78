package daprapi

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/loglines"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/testca"
)

// each makes every unary call at an address, about jobs that it makes itself.
func (r *rig) each(ctx context.Context, m *pb.JobMetadata, secret string) map[string]error {
	c, all := r.client, map[string]error{}
	job := far()
	job.Schedule, job.Data = new("@daily"), &anypb.Any{TypeUrl: "t", Value: []byte(secret)}
	_, all["ScheduleJob"] = c.ScheduleJob(ctx, &pb.ScheduleJobRequest{Name: "n", Metadata: m, Job: job, Overwrite: true})
	_, all["GetJob"] = c.GetJob(ctx, &pb.GetJobRequest{Name: "n", Metadata: m})
	_, all["ListJobs"] = c.ListJobs(ctx, &pb.ListJobsRequest{Metadata: m})
	_, all["DeleteJob"] = c.DeleteJob(ctx, &pb.DeleteJobRequest{Name: "n", Metadata: m})
	_, all["DeleteByMetadata"] = c.DeleteByMetadata(ctx, &pb.DeleteByMetadataRequest{Metadata: m})
	_, all["DeleteByNamePrefix"] = c.DeleteByNamePrefix(ctx, &pb.DeleteByNamePrefixRequest{Metadata: m, NamePrefix: "pre"})
	return all
}

// TestWhatSidecarsDoIsRecorded: each change once, of several partitions twice, each refusal, no read, and no
// value; with the SPIFFE id of the sidecar, if it had to prove that, in the log and in the store.
func TestWhatSidecarsDoIsRecorded(t *testing.T) {
	const id, hidden = "spiffe://public/ns/default/app", "S3CRET"
	for _, to := range []string{server.AuditLog, server.AuditStore} {
		for _, proved := range []bool{true, false} {
			t.Run(fmt.Sprint(to, proved), func(t *testing.T) {
				lines := &loglines.Lines{}
				o, who := Options{}, `audit.principal=anonymous`
				of, with := insecure.NewCredentials(), insecure.NewCredentials()
				if proved {
					who = `audit.principal="certificate ` + id + `"`
					of, with = mutual(t, id)
					o.Authorize = func(ctx context.Context, namespace, appID string) error {
						p, _ := peer.FromContext(ctx)
						if p.AuthInfo.(credentials.TLSInfo).SPIFFEID.String() != "spiffe://public/ns/"+namespace+"/"+appID {
							return status.Error(codes.PermissionDenied, "not you")
						}
						return nil
					}
				}
				r := startWith(t, server.Config{Store: "memory:", Extensions: server.Extensions{
					Audit: server.Audit{To: to, Log: slog.New(slog.NewTextHandler(lines, nil))}}}, o, of, with)
				for call, err := range r.each(t.Context(), appOf("app"), hidden) {
					if err != nil {
						t.Errorf("%s: %v", call, err)
					}
				}
				for call, err := range r.each(t.Context(), appOf(""), hidden) { // which is wrong, and no refusal
					if status.Code(err) != codes.InvalidArgument {
						t.Errorf("%s for no app: %v", call, err)
					}
				}
				r.refusedStream("", codes.InvalidArgument)
				if proved {
					for call, err := range r.each(t.Context(), appOf("other"), hidden) {
						if status.Code(err) != codes.PermissionDenied {
							t.Errorf("%s for another app: %v", call, err)
						}
					}
					r.refusedStream("other", codes.PermissionDenied)
				}
				r.watchApp("app")
				job := &pb.Job{Schedule: new("no " + hidden)}
				if _, err := r.client.ScheduleJob(t.Context(), &pb.ScheduleJobRequest{Name: "bad", Metadata: appOf("app"),
					Job: job}); err == nil {
					t.Error("a schedule that is none was taken")
				}
				r.stop()
				want := func(n int, texts ...string) {
					t.Helper()
					if got := lines.With(append(texts, "msg=audit ", who)...); len(got) != n {
						t.Errorf("%d lines with %q, want %d:\n%s", len(got), texts, n, strings.Join(lines.With(), ""))
					}
				}
				want(1, "audit.action=ScheduleJob", "audit.outcome=ok", "audit.resource=dapr/app/app/n", "audit.namespace=default",
					`audit.fields="[data due_time overwrite schedule]"`)
				want(1, "audit.action=DeleteJob", "audit.outcome=ok", "audit.resource=dapr/app/app/n")
				for action, resource := range map[string]string{"DeleteByMetadata": "dapr/app/app/", "DeleteByNamePrefix": "dapr/app/app/pre"} {
					for _, outcome := range []string{carillon.AuditBegun, carillon.AuditOK} {
						want(1, "audit.action="+action, "audit.outcome="+outcome, "audit.resource="+resource+" ")
					}
				}
				want(1, "audit.action=ScheduleJob", "audit.outcome=invalid_argument", "audit.resource=dapr/app/app/bad")
				all, refused := 7, 0
				if proved {
					refused = 7
				}
				want(refused, "audit.outcome=permission_denied")
				want(all + refused)
				for i := range pb.File_dapr_proto_scheduler_v1_scheduler_proto.Services().Len() {
					methods := pb.File_dapr_proto_scheduler_v1_scheduler_proto.Services().Get(i).Methods()
					for j := range methods.Len() {
						if name := string(methods.Get(j).Name()); proved && name != "WatchHosts" { // which says nothing of who asks
							want(1, "audit.action="+name+" ", "audit.outcome=permission_denied")
						}
					}
				}
				if found := lines.With(hidden); len(found) > 0 {
					t.Errorf("values: %q", found)
				}
			})
		}
	}
}

// refusedStream connects a sidecar that may not be the app, for that reason.
func (r *rig) refusedStream(app string, why codes.Code) {
	r.t.Helper()
	stream, err := r.client.WatchJobs(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	_ = stream.Send(&pb.WatchJobsRequest{WatchJobRequestType: &pb.WatchJobsRequest_Initial{
		Initial: &pb.WatchJobsRequestInitial{Namespace: "default", AppId: app}}}) // the error comes with Recv
	if _, err := stream.Recv(); status.Code(err) != why {
		r.t.Errorf("a stream for app %q: %v", app, err)
	}
}

// mutual are the credentials of a listener and of a client with an id.
func mutual(t *testing.T, id string) (of, with credentials.TransportCredentials) {
	ca := testca.New(t)
	of = credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{ca.Issue(nil, "mem").TLS(t)},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(), MinVersion: tls.VersionTLS13})
	with = credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{ca.Issue(nil, id).TLS(t)},
		RootCAs: ca.Pool(), ServerName: "mem", MinVersion: tls.VersionTLS13})
	return of, with
}
