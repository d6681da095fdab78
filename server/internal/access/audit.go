package access

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// Auditor records who makes which calls. It is asked after the caller was judged.
type Auditor interface {
	// Begin begins a call with its message; ctx has the caller's principal. What is done for the call is to be
	// done in the returned context. end is called when it has ended, with the answer, and returns what the
	// caller is told. An error: the call is not to be made.
	Begin(ctx context.Context, method string, m any) (_ context.Context, end func(reply any, err error) error,
		err error)
	// Refused says that a call was refused for what its caller has shown, or has not; m may be nil, and method
	// is empty if it is not known.
	Refused(ctx context.Context, method string, m any, err error)
}

// Effect is what a call may do.
type Effect uint8

// The effects.
const (
	Reads   Effect = iota // it changes nothing
	Works                 // it is of a worker: a run's result tells of it
	Changes               // it changes something in one partition, or outside of all, or nothing at all
	Spreads               // it changes something in several partitions, not all at once
)

// effects has every call of the table that does more than read.
var effects = map[string]Effect{
	pb.SchedulerService_Work_FullMethodName:        Works,
	pb.SchedulerService_CompleteRun_FullMethodName: Works,

	pb.SchedulerService_PutJob_FullMethodName:         Changes,
	pb.SchedulerService_CreateJob_FullMethodName:      Changes,
	pb.SchedulerService_BatchPutJobs_FullMethodName:   Changes,
	pb.SchedulerService_PutJobs_FullMethodName:        Changes,
	pb.SchedulerService_PatchJob_FullMethodName:       Changes,
	pb.SchedulerService_DeleteJob_FullMethodName:      Changes,
	pb.SchedulerService_TriggerJob_FullMethodName:     Changes,
	pb.SchedulerService_PauseJob_FullMethodName:       Changes,
	pb.SchedulerService_ResumeJob_FullMethodName:      Changes,
	pb.SchedulerService_SkipRun_FullMethodName:        Changes,
	pb.SchedulerService_CancelRun_FullMethodName:      Changes,
	pb.SchedulerService_RedriveRun_FullMethodName:     Changes,
	pb.SchedulerService_StartBackfill_FullMethodName:  Changes,
	pb.SchedulerService_CancelBackfill_FullMethodName: Changes,
	pb.SchedulerService_PutNamespace_FullMethodName:   Changes,
	pb.SchedulerService_PutCalendar_FullMethodName:    Changes,
	pb.SchedulerService_DeleteCalendar_FullMethodName: Changes,
	pb.PayloadService_PutPayload_FullMethodName:       Changes,
	pb.ClusterService_PauseQueue_FullMethodName:       Changes,
	pb.ClusterService_ResumeQueue_FullMethodName:      Changes,
	pb.AccessService_CreateKey_FullMethodName:         Changes,
	pb.AccessService_RevokeKey_FullMethodName:         Changes,
	pb.AccessService_RotateKey_FullMethodName:         Changes,

	pb.SchedulerService_DeleteJobs_FullMethodName:    Spreads,
	pb.SchedulerService_RedriveRuns_FullMethodName:   Spreads,
	pb.SchedulerService_BulkRuns_FullMethodName:      Spreads,
	pb.SchedulerService_BulkJobs_FullMethodName:      Spreads,
	pb.PayloadService_CollectPayloads_FullMethodName: Spreads,
	pb.ClusterService_DrainNode_FullMethodName:       Spreads,
	pb.ClusterService_Rebalance_FullMethodName:       Spreads,
	pb.ClusterService_PurgeQueue_FullMethodName:      Spreads,

	DaprScheduler + "WatchJobs":          Works,
	DaprScheduler + "ScheduleJob":        Changes,
	DaprScheduler + "DeleteJob":          Changes,
	DaprScheduler + "DeleteByMetadata":   Spreads,
	DaprScheduler + "DeleteByNamePrefix": Spreads,

	etcd + "KV/Put":            Changes,
	etcd + "KV/DeleteRange":    Spreads,
	etcd + "KV/Txn":            Spreads,
	etcd + "Lease/LeaseRevoke": Changes,
	// These are refused, whoever makes them: it is recorded who has tried.
	etcd + "Lease/LeaseGrant":       Changes,
	etcd + "Cluster/MemberAdd":      Changes,
	etcd + "Cluster/MemberRemove":   Changes,
	etcd + "Cluster/MemberUpdate":   Changes,
	etcd + "Cluster/MemberPromote":  Changes,
	etcd + "Maintenance/MoveLeader": Changes,
	etcd + "Maintenance/Downgrade":  Changes,
}

// DaprScheduler is how the names of the calls of Dapr's protocol begin. Its package is not linked here: not
// every program has the protocol.
const DaprScheduler = "/dapr.proto.scheduler.v1.Scheduler/"

// etcd is how the names of the calls begin that tools look into Dapr's scheduler with.
const etcd = "/etcdserverpb."

// EffectOf returns what a call may do.
func EffectOf(method string) Effect { return effects[method] }

// Subject is what an audit entry says of a request: names of what it is about, and of its fields; no values.
type Subject struct {
	Action    string // the rpc, without its service
	Namespace string // empty: it is about none, or about all
	Resource  string // the name or id that the request has; empty: none
	Fields    []string
}

// Named is a request of another protocol, with the names that Carillon has for what it is about.
type Named struct {
	proto.Message
	Namespace, Resource string
}

// maxFields is how many names of fields an entry has at most.
const maxFields = 64

// SubjectOf describes a request; m may be nil.
func SubjectOf(method string, m any) Subject {
	s := Subject{Action: method[strings.LastIndexByte(method, '/')+1:]}
	named, foreign := m.(Named)
	if foreign {
		s.Namespace, s.Resource, m = named.Namespace, named.Resource, named.Message
	}
	message, ok := m.(proto.Message)
	if !ok || !message.ProtoReflect().IsValid() {
		return s
	}
	if !foreign {
		s.Namespace, s.Resource = namesIn(m)
	}
	fields := map[string]bool{}
	message.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		noteField(fields, m, f, v)
		return true
	})
	for name := range fields {
		s.Fields = append(s.Fields, name)
	}
	slices.Sort(s.Fields)
	s.Fields = s.Fields[:min(len(s.Fields), maxFields)]
	return s
}

// namesIn returns what a request names.
func namesIn(m any) (namespace, resource string) {
	switch m := m.(type) {
	case *pb.PutNamespaceRequest:
		return named(m.GetName()), ""
	case *pb.GetNamespaceRequest:
		return named(m.GetName()), ""
	case *pb.BatchPutJobsRequest:
		return ofBatch(m.GetNamespace(), m.GetJobs())
	case *pb.PutJobsRequest:
		return ofBatch(m.GetNamespace(), m.GetJobs())
	}
	if in, ok := m.(inNamespace); ok {
		namespace = in.GetNamespace()
		if j, ok := m.(interface{ GetJob() *pb.Job }); ok && namespace == "" {
			namespace = j.GetJob().GetNamespace()
		}
		namespace = named(namespace)
	}
	return namespace, resourceIn(m)
}

// resourceIn returns the name or id of what a request is about.
func resourceIn(m any) string {
	switch m := m.(type) {
	case interface{ GetId() string }:
		return m.GetId()
	case namedRequest:
		if m.GetName() != "" {
			return m.GetName()
		}
	case interface{ GetPrefix() string }:
		if m.GetPrefix() != "" {
			return m.GetPrefix()
		}
	}
	switch m := m.(type) {
	case interface{ GetJob() *pb.Job }:
		return m.GetJob().GetName()
	case interface{ GetJob() string }:
		return m.GetJob()
	}
	return ""
}

// ofBatch is a namespace of a batch, and the name of its first job.
func ofBatch(namespace string, all []*pb.Job) (string, string) {
	if len(all) == 0 {
		return named(namespace), ""
	}
	if namespace == "" {
		namespace = all[0].GetNamespace()
	}
	return named(namespace), all[0].GetName()
}

// where are the fields that say what a request is about.
var where = []protoreflect.Name{"namespace", "name", "id", "prefix"}

// isJob reports whether a field has a job, or jobs.
func isJob(f protoreflect.FieldDescriptor) bool {
	return f.Message() != nil && (f.Message().FullName() == "carillon.v1.Job" ||
		f.Message().FullName() == "dapr.proto.scheduler.v1.Job")
}

// isAddress reports whether a field says where the jobs of a request of Dapr's are.
func isAddress(f protoreflect.FieldDescriptor) bool {
	return f.Message() != nil && f.Message().FullName() == "dapr.proto.scheduler.v1.JobMetadata"
}

// noteField notes the names of a field that a request has set, and of those of the jobs in it. Of a patch
// those count that it names: the others of its job are none of it.
func noteField(fields map[string]bool, m any, f protoreflect.FieldDescriptor, v protoreflect.Value) {
	patch, isPatch := m.(*pb.PatchJobRequest)
	switch {
	case slices.Contains(where, f.Name()), isAddress(f):
	case isPatch && f.Name() == "fields":
		known := (*pb.Job)(nil).ProtoReflect().Descriptor().Fields()
		for _, path := range patch.GetFields() {
			// What else stands there is a text of the caller's.
			if first, _, _ := strings.Cut(path, "."); known.ByName(protoreflect.Name(first)) != nil {
				fields[first] = true
			}
		}
	case isJob(f):
		if isPatch {
			return
		}
		note := func(job protoreflect.Message) {
			job.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
				if !slices.Contains(where, f.Name()) && f.Name() != "status" {
					fields[string(f.Name())] = true
				}
				return true
			})
		}
		if f.IsList() {
			for i := range v.List().Len() {
				note(v.List().Get(i).Message())
			}
			return
		}
		note(v.Message())
	default:
		fields[string(f.Name())] = true
	}
}
