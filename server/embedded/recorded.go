package embedded

import (
	"context"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/server"
)

// recorded is a scheduler whose calls are recorded as if they came from outside, by the program. Each call
// has its message made for its names and fields. What only reads, and work, is not recorded.
type recorded struct {
	to     carillon.Scheduler // not embedded: a new call is to be looked at
	queues carillon.Queues
	by     access.Auditor
}

// recordedQueues are the queues of a recorded scheduler.
type recordedQueues struct{ r *recorded }

var (
	_ carillon.Scheduler = (*recorded)(nil)
	_ carillon.Queues    = recordedQueues{}
)

// recordedBy returns what a program uses of a node: its calls are recorded if the node records any.
func recordedBy(n *server.Node) (carillon.Scheduler, carillon.Queues) {
	to, queues, by := n.Scheduler(), carillon.Queues(n.Cluster()), n.Auditor()
	if by == nil {
		return to, queues
	}
	r := &recorded{to, queues, by}
	return r, recordedQueues{r}
}

// program is who makes the calls.
var program = &access.Principal{Kind: "program"}

// record makes a call and has it recorded.
func record[T any](ctx context.Context, r *recorded, method string, m proto.Message,
	call func(context.Context) (T, error)) (result T, err error) {
	ctx, end, err := r.by.Begin(access.With(ctx, program), method, m)
	if err != nil {
		return result, err
	}
	result, err = call(ctx)
	var reply any
	if ref, ok := any(result).(carillon.PayloadRef); ok {
		reply = wire.StoredToProto(ref) // which names what was made
	}
	return result, end(reply, err)
}

// PutJob implements [carillon.Jobs].
func (r *recorded) PutJob(ctx context.Context, job carillon.Job,
	opts ...carillon.PutOption) (carillon.PutResult, error) {
	o := carillon.PutOptions{}.With(opts...)
	return record(ctx, r, pb.SchedulerService_PutJob_FullMethodName, &pb.PutJobRequest{
		Job: wire.JobToProto(&job), IfAbsent: o.IfAbsent, IfGeneration: o.IfGeneration},
		func(ctx context.Context) (carillon.PutResult, error) { return r.to.PutJob(ctx, job, opts...) })
}

// PutJobs implements [carillon.Jobs].
func (r *recorded) PutJobs(ctx context.Context, jobs []carillon.Job) ([]carillon.PutResult, error) {
	return record(ctx, r, pb.SchedulerService_BatchPutJobs_FullMethodName,
		&pb.BatchPutJobsRequest{Jobs: wire.JobsToProto(jobs)},
		func(ctx context.Context) ([]carillon.PutResult, error) { return r.to.PutJobs(ctx, jobs) })
}

// PatchJob implements [carillon.Jobs].
func (r *recorded) PatchJob(ctx context.Context, key carillon.Key,
	patch carillon.Patch) (carillon.PutResult, error) {
	return record(ctx, r, pb.SchedulerService_PatchJob_FullMethodName, wire.PatchToProto(key, &patch),
		func(ctx context.Context) (carillon.PutResult, error) { return r.to.PatchJob(ctx, key, patch) })
}

// SetPaused implements [carillon.Jobs].
func (r *recorded) SetPaused(ctx context.Context, key carillon.Key,
	p carillon.PauseOptions) (carillon.Job, error) {
	method := pb.SchedulerService_PauseJob_FullMethodName
	m := proto.Message(&pb.PauseJobRequest{Namespace: key.Namespace, Name: key.Name, Note: p.Note})
	if !p.Paused {
		method = pb.SchedulerService_ResumeJob_FullMethodName
		m = &pb.ResumeJobRequest{Namespace: key.Namespace, Name: key.Name, Note: p.Note, CatchUp: p.CatchUp}
	}
	return record(ctx, r, method, m,
		func(ctx context.Context) (carillon.Job, error) { return r.to.SetPaused(ctx, key, p) })
}

// ListTimes implements [carillon.Timetables].
func (r *recorded) ListTimes(ctx context.Context, q carillon.TimesQuery) (carillon.Timetable, error) {
	return r.to.ListTimes(ctx, q)
}

// GetJob implements [carillon.Jobs].
func (r *recorded) GetJob(ctx context.Context, key carillon.Key) (carillon.Job, error) {
	return r.to.GetJob(ctx, key)
}

// ListJobs implements [carillon.Jobs].
func (r *recorded) ListJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error) {
	return r.to.ListJobs(ctx, q)
}

// DeleteJob implements [carillon.Jobs].
func (r *recorded) DeleteJob(ctx context.Context, key carillon.Key,
	opts ...carillon.DeleteOption) (carillon.DeleteResult, error) {
	return record(ctx, r, pb.SchedulerService_DeleteJob_FullMethodName, &pb.DeleteJobRequest{
		Namespace: key.Namespace, Name: key.Name,
		IfGeneration: carillon.DeleteOptions{}.With(opts...).IfGeneration},
		func(ctx context.Context) (carillon.DeleteResult, error) { return r.to.DeleteJob(ctx, key, opts...) })
}

// DeleteJobs implements [carillon.Jobs].
func (r *recorded) DeleteJobs(ctx context.Context, namespace, prefix string) (int, error) {
	return record(ctx, r, pb.SchedulerService_DeleteJobs_FullMethodName,
		&pb.DeleteJobsRequest{Namespace: namespace, Prefix: prefix},
		func(ctx context.Context) (int, error) { return r.to.DeleteJobs(ctx, namespace, prefix) })
}

// TriggerJob implements [carillon.Runs].
func (r *recorded) TriggerJob(ctx context.Context, key carillon.Key,
	opts ...carillon.TriggerOption) (carillon.Run, error) {
	o := carillon.TriggerOptions{}.With(opts...)
	return record(ctx, r, pb.SchedulerService_TriggerJob_FullMethodName, wire.TriggerToProto(key, &o),
		func(ctx context.Context) (carillon.Run, error) { return r.to.TriggerJob(ctx, key, opts...) })
}

// SkipRun implements [carillon.Runs].
func (r *recorded) SkipRun(ctx context.Context, key carillon.Key) (carillon.SkipResult, error) {
	return record(ctx, r, pb.SchedulerService_SkipRun_FullMethodName,
		&pb.SkipRunRequest{Namespace: key.Namespace, Name: key.Name},
		func(ctx context.Context) (carillon.SkipResult, error) { return r.to.SkipRun(ctx, key) })
}

// ListRuns implements [carillon.Runs].
func (r *recorded) ListRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	return r.to.ListRuns(ctx, q)
}

// GetRun implements [carillon.Runs].
func (r *recorded) GetRun(ctx context.Context, namespace, id string) (carillon.Run, error) {
	return r.to.GetRun(ctx, namespace, id)
}

// CancelRun implements [carillon.Runs].
func (r *recorded) CancelRun(ctx context.Context, namespace, id string) (carillon.CancelResult, error) {
	return record(ctx, r, pb.SchedulerService_CancelRun_FullMethodName,
		&pb.CancelRunRequest{Namespace: namespace, Id: id},
		func(ctx context.Context) (carillon.CancelResult, error) { return r.to.CancelRun(ctx, namespace, id) })
}

// RedriveRun implements [carillon.Runs].
func (r *recorded) RedriveRun(ctx context.Context, namespace, id string) (carillon.Run, error) {
	return record(ctx, r, pb.SchedulerService_RedriveRun_FullMethodName,
		&pb.RedriveRunRequest{Namespace: namespace, Id: id},
		func(ctx context.Context) (carillon.Run, error) { return r.to.RedriveRun(ctx, namespace, id) })
}

// RedriveRuns implements [carillon.Runs].
func (r *recorded) RedriveRuns(ctx context.Context, namespace, job string) (int, error) {
	return record(ctx, r, pb.SchedulerService_RedriveRuns_FullMethodName,
		&pb.RedriveRunsRequest{Namespace: namespace, Job: job},
		func(ctx context.Context) (int, error) { return r.to.RedriveRuns(ctx, namespace, job) })
}

// CompleteRun implements [carillon.Runs].
func (r *recorded) CompleteRun(ctx context.Context, namespace string, result carillon.Result) error {
	return r.to.CompleteRun(ctx, namespace, result)
}

// BulkRuns implements [carillon.Bulk].
func (r *recorded) BulkRuns(ctx context.Context, b carillon.BulkRuns) (carillon.BulkResult, error) {
	return record(ctx, r, pb.SchedulerService_BulkRuns_FullMethodName, wire.BulkRunsToProto(&b),
		func(ctx context.Context) (carillon.BulkResult, error) { return r.to.BulkRuns(ctx, b) })
}

// BulkJobs implements [carillon.Bulk].
func (r *recorded) BulkJobs(ctx context.Context, b carillon.BulkJobs) (carillon.BulkResult, error) {
	return record(ctx, r, pb.SchedulerService_BulkJobs_FullMethodName, wire.BulkJobsToProto(&b),
		func(ctx context.Context) (carillon.BulkResult, error) { return r.to.BulkJobs(ctx, b) })
}

// StartBackfill implements [carillon.Backfills].
func (r *recorded) StartBackfill(ctx context.Context, key carillon.Key,
	spec carillon.BackfillSpec) (carillon.Backfill, error) {
	return record(ctx, r, pb.SchedulerService_StartBackfill_FullMethodName, wire.SpecToProto(key, &spec),
		func(ctx context.Context) (carillon.Backfill, error) { return r.to.StartBackfill(ctx, key, spec) })
}

// GetBackfill implements [carillon.Backfills].
func (r *recorded) GetBackfill(ctx context.Context, namespace, id string) (carillon.Backfill, error) {
	return r.to.GetBackfill(ctx, namespace, id)
}

// ListBackfills implements [carillon.Backfills].
func (r *recorded) ListBackfills(ctx context.Context, key carillon.Key) ([]carillon.Backfill, error) {
	return r.to.ListBackfills(ctx, key)
}

// CancelBackfill implements [carillon.Backfills].
func (r *recorded) CancelBackfill(ctx context.Context, namespace, id string) (carillon.Backfill, error) {
	return record(ctx, r, pb.SchedulerService_CancelBackfill_FullMethodName,
		&pb.CancelBackfillRequest{Namespace: namespace, Id: id},
		func(ctx context.Context) (carillon.Backfill, error) { return r.to.CancelBackfill(ctx, namespace, id) })
}

// GetNamespace implements [carillon.Namespaces].
func (r *recorded) GetNamespace(ctx context.Context, name string) (carillon.Namespace, error) {
	return r.to.GetNamespace(ctx, name)
}

// ListNamespaces implements [carillon.Namespaces].
func (r *recorded) ListNamespaces(ctx context.Context,
	q carillon.NamespaceQuery) (carillon.NamespacePage, error) {
	return r.to.ListNamespaces(ctx, q)
}

// PutNamespace implements [carillon.Namespaces].
func (r *recorded) PutNamespace(ctx context.Context, ns carillon.Namespace) (carillon.Namespace, error) {
	return record(ctx, r, pb.SchedulerService_PutNamespace_FullMethodName, wire.PutNamespaceToProto(&ns),
		func(ctx context.Context) (carillon.Namespace, error) { return r.to.PutNamespace(ctx, ns) })
}

// Watch implements [carillon.Events].
func (r *recorded) Watch(ctx context.Context, q carillon.WatchQuery,
	f func(carillon.EventBatch) error) error {
	return r.to.Watch(ctx, q, f)
}

// PutCalendar implements [carillon.Calendars].
func (r *recorded) PutCalendar(ctx context.Context, c carillon.Calendar) (carillon.Calendar, error) {
	return record(ctx, r, pb.SchedulerService_PutCalendar_FullMethodName, wire.PutCalendarToProto(&c),
		func(ctx context.Context) (carillon.Calendar, error) { return r.to.PutCalendar(ctx, c) })
}

// GetCalendar implements [carillon.Calendars].
func (r *recorded) GetCalendar(ctx context.Context, namespace, name string) (carillon.Calendar, error) {
	return r.to.GetCalendar(ctx, namespace, name)
}

// ListCalendars implements [carillon.Calendars].
func (r *recorded) ListCalendars(ctx context.Context,
	q carillon.CalendarQuery) (carillon.CalendarPage, error) {
	return r.to.ListCalendars(ctx, q)
}

// DeleteCalendar implements [carillon.Calendars].
func (r *recorded) DeleteCalendar(ctx context.Context, namespace, name string,
	opts ...carillon.DeleteOption) error {
	_, err := record(ctx, r, pb.SchedulerService_DeleteCalendar_FullMethodName, &pb.DeleteCalendarRequest{
		Namespace: namespace, Name: name, IfGeneration: carillon.DeleteOptions{}.With(opts...).IfGeneration},
		func(ctx context.Context) (struct{}, error) {
			return struct{}{}, r.to.DeleteCalendar(ctx, namespace, name, opts...)
		})
	return err
}

// PutPayload implements [carillon.Payloads].
func (r *recorded) PutPayload(ctx context.Context, namespace string,
	from io.Reader) (carillon.PayloadRef, error) {
	return record(ctx, r, pb.PayloadService_PutPayload_FullMethodName,
		&pb.PutPayloadRequest{Namespace: namespace},
		func(ctx context.Context) (carillon.PayloadRef, error) { return r.to.PutPayload(ctx, namespace, from) })
}

// GetPayload implements [carillon.Payloads].
func (r *recorded) GetPayload(ctx context.Context, namespace string,
	ref carillon.PayloadRef) (io.ReadCloser, error) {
	return r.to.GetPayload(ctx, namespace, ref)
}

// CollectPayloads implements [carillon.Payloads].
func (r *recorded) CollectPayloads(ctx context.Context) (carillon.PayloadCollection, error) {
	return record(ctx, r, pb.PayloadService_CollectPayloads_FullMethodName, &pb.CollectPayloadsRequest{},
		func(ctx context.Context) (carillon.PayloadCollection, error) { return r.to.CollectPayloads(ctx) })
}

// Connect implements [carillon.Work].
func (r *recorded) Connect(ctx context.Context, hello carillon.Hello) (carillon.Session, error) {
	return r.to.Connect(ctx, hello)
}

// ListQueues implements [carillon.Queues].
func (q recordedQueues) ListQueues(ctx context.Context, of carillon.QueueQuery) (carillon.QueuePage, error) {
	return q.r.queues.ListQueues(ctx, of)
}

// ListWorkers implements [carillon.Queues].
func (q recordedQueues) ListWorkers(ctx context.Context,
	of carillon.WorkerQuery) (carillon.WorkerPage, error) {
	return q.r.queues.ListWorkers(ctx, of)
}

// PauseQueue implements [carillon.Queues].
func (q recordedQueues) PauseQueue(ctx context.Context, key carillon.QueueKey,
	note string) (carillon.QueueChange, error) {
	return record(ctx, q.r, pb.ClusterService_PauseQueue_FullMethodName, &pb.PauseQueueRequest{
		Namespace: key.Namespace, Kind: key.Kind, Name: key.Name, Note: note},
		func(ctx context.Context) (carillon.QueueChange, error) { return q.r.queues.PauseQueue(ctx, key, note) })
}

// ResumeQueue implements [carillon.Queues].
func (q recordedQueues) ResumeQueue(ctx context.Context,
	key carillon.QueueKey) (carillon.QueueChange, error) {
	return record(ctx, q.r, pb.ClusterService_ResumeQueue_FullMethodName, &pb.ResumeQueueRequest{
		Namespace: key.Namespace, Kind: key.Kind, Name: key.Name},
		func(ctx context.Context) (carillon.QueueChange, error) { return q.r.queues.ResumeQueue(ctx, key) })
}

// PurgeQueue implements [carillon.Queues].
func (q recordedQueues) PurgeQueue(ctx context.Context, key carillon.QueueKey,
	o carillon.PurgeOptions) (carillon.PurgeResult, error) {
	return record(ctx, q.r, pb.ClusterService_PurgeQueue_FullMethodName, &pb.PurgeQueueRequest{
		Namespace: key.Namespace, Kind: key.Kind, Name: key.Name, DryRun: o.DryRun},
		func(ctx context.Context) (carillon.PurgeResult, error) { return q.r.queues.PurgeQueue(ctx, key, o) })
}
