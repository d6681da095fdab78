package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// echo is a service that remembers what it was asked and answers what the test says.
type echo struct {
	pb.UnsafeSchedulerServiceServer
	asked proto.Message
	reply proto.Message
	err   error
}

func answer[T proto.Message](e *echo, asked proto.Message) (T, error) {
	e.asked = asked
	if reply, ok := e.reply.(T); ok && e.err == nil {
		return reply, nil
	}
	var zero T
	if e.err != nil {
		return zero, e.err
	}
	return zero.ProtoReflect().New().Interface().(T), nil
}

func (e *echo) PutJob(_ context.Context, m *pb.PutJobRequest) (*pb.PutJobResponse, error) {
	return answer[*pb.PutJobResponse](e, m)
}

func (e *echo) CreateJob(_ context.Context, m *pb.CreateJobRequest) (*pb.PutJobResponse, error) {
	return answer[*pb.PutJobResponse](e, m)
}

func (e *echo) BatchPutJobs(_ context.Context, m *pb.BatchPutJobsRequest) (*pb.BatchPutJobsResponse, error) {
	return answer[*pb.BatchPutJobsResponse](e, m)
}

func (e *echo) PutJobs(pb.SchedulerService_PutJobsServer) error { panic("not REST") }

func (e *echo) PatchJob(_ context.Context, m *pb.PatchJobRequest) (*pb.PutJobResponse, error) {
	return answer[*pb.PutJobResponse](e, m)
}

func (e *echo) GetJob(_ context.Context, m *pb.GetJobRequest) (*pb.Job, error) {
	return answer[*pb.Job](e, m)
}

func (e *echo) ListJobs(_ context.Context, m *pb.ListJobsRequest) (*pb.ListJobsResponse, error) {
	return answer[*pb.ListJobsResponse](e, m)
}

func (e *echo) DeleteJob(_ context.Context, m *pb.DeleteJobRequest) (*pb.DeleteJobResponse, error) {
	return answer[*pb.DeleteJobResponse](e, m)
}

func (e *echo) DeleteJobs(_ context.Context, m *pb.DeleteJobsRequest) (*pb.DeleteJobsResponse, error) {
	return answer[*pb.DeleteJobsResponse](e, m)
}

func (e *echo) TriggerJob(_ context.Context, m *pb.TriggerJobRequest) (*pb.Run, error) {
	return answer[*pb.Run](e, m)
}

func (e *echo) PauseJob(_ context.Context, m *pb.PauseJobRequest) (*pb.Job, error) {
	return answer[*pb.Job](e, m)
}

func (e *echo) ResumeJob(_ context.Context, m *pb.ResumeJobRequest) (*pb.Job, error) {
	return answer[*pb.Job](e, m)
}

func (e *echo) SkipRun(_ context.Context, m *pb.SkipRunRequest) (*pb.SkipRunResponse, error) {
	return answer[*pb.SkipRunResponse](e, m)
}

func (e *echo) StartBackfill(_ context.Context, m *pb.StartBackfillRequest) (*pb.Backfill, error) {
	return answer[*pb.Backfill](e, m)
}

func (e *echo) ListBackfills(_ context.Context,
	m *pb.ListBackfillsRequest) (*pb.ListBackfillsResponse, error) {
	return answer[*pb.ListBackfillsResponse](e, m)
}

func (e *echo) GetBackfill(_ context.Context, m *pb.GetBackfillRequest) (*pb.Backfill, error) {
	return answer[*pb.Backfill](e, m)
}

func (e *echo) CancelBackfill(_ context.Context, m *pb.CancelBackfillRequest) (*pb.Backfill, error) {
	return answer[*pb.Backfill](e, m)
}

func (e *echo) GetNamespace(_ context.Context, m *pb.GetNamespaceRequest) (*pb.Namespace, error) {
	return answer[*pb.Namespace](e, m)
}

func (e *echo) ListNamespaces(_ context.Context,
	m *pb.ListNamespacesRequest) (*pb.ListNamespacesResponse, error) {
	return answer[*pb.ListNamespacesResponse](e, m)
}

func (e *echo) PutCalendar(_ context.Context, m *pb.PutCalendarRequest) (*pb.Calendar, error) {
	return answer[*pb.Calendar](e, m)
}

func (e *echo) GetCalendar(_ context.Context, m *pb.GetCalendarRequest) (*pb.Calendar, error) {
	return answer[*pb.Calendar](e, m)
}

func (e *echo) ListCalendars(_ context.Context,
	m *pb.ListCalendarsRequest) (*pb.ListCalendarsResponse, error) {
	return answer[*pb.ListCalendarsResponse](e, m)
}

func (e *echo) DeleteCalendar(_ context.Context,
	m *pb.DeleteCalendarRequest) (*pb.DeleteCalendarResponse, error) {
	return answer[*pb.DeleteCalendarResponse](e, m)
}

func (e *echo) PutNamespace(_ context.Context, m *pb.PutNamespaceRequest) (*pb.Namespace, error) {
	return answer[*pb.Namespace](e, m)
}

func (e *echo) ListRuns(_ context.Context, m *pb.ListRunsRequest) (*pb.ListRunsResponse, error) {
	return answer[*pb.ListRunsResponse](e, m)
}

func (e *echo) GetRun(_ context.Context, m *pb.GetRunRequest) (*pb.Run, error) {
	return answer[*pb.Run](e, m)
}

func (e *echo) CancelRun(_ context.Context, m *pb.CancelRunRequest) (*pb.CancelRunResponse, error) {
	return answer[*pb.CancelRunResponse](e, m)
}

func (e *echo) RedriveRun(_ context.Context, m *pb.RedriveRunRequest) (*pb.Run, error) {
	return answer[*pb.Run](e, m)
}

func (e *echo) RedriveRuns(_ context.Context, m *pb.RedriveRunsRequest) (*pb.RedriveRunsResponse, error) {
	return answer[*pb.RedriveRunsResponse](e, m)
}

func (e *echo) BulkRuns(_ context.Context, m *pb.BulkRunsRequest) (*pb.BulkResponse, error) {
	return answer[*pb.BulkResponse](e, m)
}

func (e *echo) BulkJobs(_ context.Context, m *pb.BulkJobsRequest) (*pb.BulkResponse, error) {
	return answer[*pb.BulkResponse](e, m)
}

func (e *echo) CompleteRun(_ context.Context, m *pb.CompleteRunRequest) (*pb.CompleteRunResponse, error) {
	return answer[*pb.CompleteRunResponse](e, m)
}

func (e *echo) ListTimes(_ context.Context, m *pb.ListTimesRequest) (*pb.ListTimesResponse, error) {
	return answer[*pb.ListTimesResponse](e, m)
}

func (e *echo) PreviewSchedule(_ context.Context,
	m *pb.PreviewScheduleRequest) (*pb.PreviewScheduleResponse, error) {
	return answer[*pb.PreviewScheduleResponse](e, m)
}

func (e *echo) Work(pb.SchedulerService_WorkServer) error { panic("not REST") }

// allRoutes are those of all services.
func allRoutes() []route {
	return slices.Concat(routesOf(pb.File_carillon_v1_scheduler_proto, &pb.SchedulerService_ServiceDesc, nil),
		routesOf(pb.File_carillon_v1_cluster_proto, &pb.ClusterService_ServiceDesc, nil),
		routesOf(pb.File_carillon_v1_access_proto, &pb.AccessService_ServiceDesc, nil),
		routesOf(pb.File_carillon_v1_audit_proto, &pb.AuditService_ServiceDesc, nil),
		routesOf(pb.File_carillon_v1_event_proto, &pb.EventService_ServiceDesc, nil),
		Payloads{Store: struct{ carillon.Payloads }{}}.routes(&handler{}), (&handler{}).sessionRoutes())
}

// api is the handler over e.
func api(t *testing.T, e *echo, o Options) http.Handler {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h, err := New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// send makes a request, "METHOD /path", with headers as pairs.
func send(h http.Handler, request, body string, headers ...string) *httptest.ResponseRecorder {
	method, path, _ := strings.Cut(request, " ")
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// equal compares messages.
func equal(t *testing.T, what string, want, got proto.Message) {
	t.Helper()
	if !proto.Equal(want, got) {
		t.Errorf("%s:\nwant %v\n got %v", what, protojson.Format(want), got)
	}
}
