package access

import (
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// action is what a call does, and the roles that may do it, the least first.
type action struct {
	roles []carillon.Role
}

// The actions.
var (
	read = &action{[]carillon.Role{carillon.RoleViewer, carillon.RoleProducer, carillon.RoleOperator,
		carillon.RoleAdmin}}
	fetch      = &action{append([]carillon.Role{carillon.RoleWorker}, read.roles...)} // payloads of runs
	store      = &action{[]carillon.Role{carillon.RoleProducer, carillon.RoleOperator, carillon.RoleAdmin}}
	operate    = &action{[]carillon.Role{carillon.RoleOperator, carillon.RoleAdmin}}
	work       = &action{[]carillon.Role{carillon.RoleWorker, carillon.RoleAdmin}}
	administer = &action{[]carillon.Role{carillon.RoleAdmin}}
)

// demand is what a request asks for.
type demand struct {
	does       *action
	namespaces []string // or patterns; all of them are needed
	queues     []string // of the only namespace
	anywhere   bool     // the action in any namespace will do; what is shown is judged by who serves the call
	nothing    bool     // it is about nothing that anybody owns
	missing    func() error
}

// rule is how a call is judged.
type rule struct {
	// first: only the first message of the stream says what it is about; the service refuses others that do.
	first bool
	of    func(m any) (demand, bool) // false: it is another message than that of the call
}

// on makes a rule of what a request demands.
func on[M any](f func(m M) demand) rule {
	return rule{of: func(m any) (demand, bool) {
		req, ok := m.(M)
		if !ok {
			return demand{}, false
		}
		return f(req), true
	}}
}

// table has every call that there is. What is not in it is refused.
var table = map[string]rule{
	pb.SchedulerService_PutJob_FullMethodName: on(func(m *pb.PutJobRequest) demand {
		return jobs(store, m.GetNamespace(), m.GetJob())
	}),
	pb.SchedulerService_CreateJob_FullMethodName: on(func(m *pb.CreateJobRequest) demand {
		return jobs(store, m.GetNamespace(), m.GetJob())
	}),
	pb.SchedulerService_BatchPutJobs_FullMethodName: on(func(m *pb.BatchPutJobsRequest) demand {
		return jobs(store, m.GetNamespace(), m.GetJobs()...)
	}),
	pb.SchedulerService_PutJobs_FullMethodName: on(func(m *pb.PutJobsRequest) demand {
		return jobs(store, m.GetNamespace(), m.GetJobs()...)
	}),
	pb.SchedulerService_PatchJob_FullMethodName: on(func(m *pb.PatchJobRequest) demand {
		d := jobs(store, m.GetNamespace(), m.GetJob())
		d.missing = noJob(m)
		return d
	}),
	pb.SchedulerService_GetJob_FullMethodName:     onJob(read),
	pb.SchedulerService_ListJobs_FullMethodName:   within1(read),
	pb.SchedulerService_DeleteJob_FullMethodName:  onJob(store),
	pb.SchedulerService_DeleteJobs_FullMethodName: within1(store),
	pb.SchedulerService_TriggerJob_FullMethodName: onJob(store),
	pb.SchedulerService_PauseJob_FullMethodName:   onJob(operate),
	pb.SchedulerService_ResumeJob_FullMethodName:  onJob(operate),
	pb.SchedulerService_SkipRun_FullMethodName:    onJob(operate),

	pb.SchedulerService_ListRuns_FullMethodName:    within1(read),
	pb.SchedulerService_GetRun_FullMethodName:      onID(read, "run"),
	pb.SchedulerService_CancelRun_FullMethodName:   onID(operate, "run"),
	pb.SchedulerService_RedriveRun_FullMethodName:  onID(operate, "run"),
	pb.SchedulerService_RedriveRuns_FullMethodName: within1(operate),
	pb.SchedulerService_CompleteRun_FullMethodName: onID(work, "run"),
	pb.SchedulerService_BulkRuns_FullMethodName:    within1(operate),
	pb.SchedulerService_BulkJobs_FullMethodName: on(func(m *pb.BulkJobsRequest) demand {
		does := operate
		switch m.GetAction() {
		case pb.JobAction_JOB_ACTION_TRIGGER, pb.JobAction_JOB_ACTION_DELETE:
			does = store
		}
		return in(does, m.GetNamespace())
	}),

	pb.SchedulerService_StartBackfill_FullMethodName:  onJob(operate),
	pb.SchedulerService_ListBackfills_FullMethodName:  onJob(read),
	pb.SchedulerService_GetBackfill_FullMethodName:    onID(read, "backfill"),
	pb.SchedulerService_CancelBackfill_FullMethodName: onID(operate, "backfill"),

	pb.SchedulerService_GetNamespace_FullMethodName: on(func(m *pb.GetNamespaceRequest) demand {
		return in(read, m.GetName())
	}),
	pb.SchedulerService_ListNamespaces_FullMethodName: all(read),
	pb.SchedulerService_PutNamespace_FullMethodName: on(func(m *pb.PutNamespaceRequest) demand {
		d := in(administer, m.GetName())
		for _, w := range m.GetWebhooks() {
			if slices.ContainsFunc(w.GetTypes(), ofNodes) {
				d.namespaces = append(d.namespaces, everywhere)
			}
		}
		return d
	}),
	pb.SchedulerService_PutCalendar_FullMethodName:    within1(operate),
	pb.SchedulerService_GetCalendar_FullMethodName:    onCalendar(read),
	pb.SchedulerService_ListCalendars_FullMethodName:  within1(read),
	pb.SchedulerService_DeleteCalendar_FullMethodName: onCalendar(operate),
	pb.SchedulerService_ListTimes_FullMethodName:      onJob(read),
	pb.SchedulerService_PreviewSchedule_FullMethodName: on(func(m *pb.PreviewScheduleRequest) demand {
		if m.GetNamespace() == "" && len(m.GetExcept())+len(m.GetOnly()) == 0 {
			return demand{nothing: true} // no calendar is read
		}
		return in(read, m.GetNamespace())
	}),
	pb.SchedulerService_Work_FullMethodName: first(on(func(m *pb.WorkRequest) demand {
		d := in(work, m.GetHello().GetNamespace())
		d.queues = m.GetHello().GetQueues()
		return d
	})),

	pb.EventService_Watch_FullMethodName: within0(read),

	pb.PayloadService_PutPayload_FullMethodName: first(within1(store)),
	pb.PayloadService_GetPayload_FullMethodName: on(func(m *pb.GetPayloadRequest) demand {
		d := in(fetch, m.GetNamespace())
		d.missing = func() error {
			return carillon.Errorf(carillon.NotFound, "payload", "namespace %q has no payload %s: put it again",
				named(m.GetNamespace()), m.GetPayload())
		}
		return d
	}),
	pb.PayloadService_CollectPayloads_FullMethodName: all(administer),

	pb.ClusterService_GetCluster_FullMethodName:  all(read),
	pb.ClusterService_WatchNodes_FullMethodName:  all(read),
	pb.ClusterService_DrainNode_FullMethodName:   all(administer),
	pb.ClusterService_Rebalance_FullMethodName:   all(administer),
	pb.ClusterService_ListQueues_FullMethodName:  within0(read),
	pb.ClusterService_ListWorkers_FullMethodName: within0(read),
	pb.ClusterService_ListIngests_FullMethodName: within0(read),
	pb.ClusterService_PauseQueue_FullMethodName:  within1(operate),
	pb.ClusterService_ResumeQueue_FullMethodName: within1(operate),
	pb.ClusterService_PurgeQueue_FullMethodName:  within1(operate),

	pb.AuditService_ListAudit_FullMethodName:   within0(administer),
	pb.AuditService_VerifyAudit_FullMethodName: all(administer),

	pb.AccessService_CreateKey_FullMethodName: on(func(m *pb.CreateKeyRequest) demand {
		d := demand{does: administer, anywhere: len(m.GetGrants()) == 0}
		for _, g := range m.GetGrants() {
			d.namespaces = append(d.namespaces, g.GetNamespaces()...)
		}
		d.anywhere = len(d.namespaces) == 0 // which the service refuses
		return d
	}),
	pb.AccessService_ListKeys_FullMethodName:  on(func(*pb.ListKeysRequest) demand { return someKeys }),
	pb.AccessService_RotateKey_FullMethodName: on(func(*pb.RotateKeyRequest) demand { return someKeys }),
	pb.AccessService_RevokeKey_FullMethodName: on(func(*pb.RevokeKeyRequest) demand { return someKeys }),
}

// ofNodes reports whether events of a type, or group of types, are about nodes, which are of no namespace.
func ofNodes(event string) bool { return event == "node" || strings.HasPrefix(event, "node.") }

// someKeys are those that the service shows the caller.
var someKeys = demand{does: administer, anywhere: true}

// first is a rule for the first message of a stream.
func first(r rule) rule {
	r.first = true
	return r
}

// named is the namespace that a request says.
func named(namespace string) string {
	if namespace == "" {
		return carillon.DefaultNamespace
	}
	return namespace
}

// in is what is asked of one namespace; empty is the default one.
func in(does *action, namespace string) demand {
	return demand{does: does, namespaces: []string{named(namespace)}}
}

// all is a call about the store as a whole.
func all(does *action) rule {
	return rule{of: func(any) (demand, bool) {
		return demand{does: does, namespaces: []string{everywhere}}, true
	}}
}

// inNamespace is a request that names a namespace.
type inNamespace interface{ GetNamespace() string }

// within1 is a call about what is in a namespace; empty is the default one.
func within1(does *action) rule {
	return on(func(m inNamespace) demand { return in(does, m.GetNamespace()) })
}

// within0 is the same, and empty is all of them.
func within0(does *action) rule {
	return on(func(m inNamespace) demand {
		if m.GetNamespace() == "" {
			return demand{does: does, namespaces: []string{everywhere}}
		}
		return in(does, m.GetNamespace())
	})
}

// onJob is a call about the job that a request names.
func onJob(does *action) rule {
	return on(func(m namedRequest) demand {
		d := in(does, m.GetNamespace())
		d.missing = noJob(m)
		return d
	})
}

// onCalendar is a call about the calendar that a request names.
func onCalendar(does *action) rule {
	return on(func(m namedRequest) demand {
		d := in(does, m.GetNamespace())
		d.missing = func() error {
			return carillon.Errorf(carillon.NotFound, "name", "there is no calendar %q in namespace %q", m.GetName(),
				d.namespaces[0])
		}
		return d
	})
}

// onID is a call about what has an id.
func onID(does *action, noun string) rule {
	return on(func(m interface {
		inNamespace
		GetId() string
	}) demand {
		d := in(does, m.GetNamespace())
		d.missing = func() error {
			return carillon.Errorf(carillon.NotFound, "id", "there is no %s %s", noun, m.GetId())
		}
		return d
	})
}

// namedRequest is a request that names something in a namespace.
type namedRequest interface {
	inNamespace
	GetName() string
}

func noJob(m namedRequest) func() error {
	return func() error {
		return carillon.Errorf(carillon.NotFound, "name", "there is no job %.64q in namespace %q", m.GetName(),
			named(m.GetNamespace()))
	}
}

// jobs are jobs in a request. Each may name a namespace, if the request does not or names the same.
func jobs(does *action, namespace string, inside ...*pb.Job) demand {
	d := demand{does: does}
	if namespace != "" {
		d.namespaces = append(d.namespaces, namespace)
	}
	for _, j := range inside {
		if ns := j.GetNamespace(); ns != "" || namespace == "" {
			if ns = named(ns); len(d.namespaces) == 0 || d.namespaces[len(d.namespaces)-1] != ns {
				d.namespaces = append(d.namespaces, ns)
			}
		}
	}
	if len(d.namespaces) == 0 {
		d.namespaces = append(d.namespaces, carillon.DefaultNamespace)
	}
	return d
}
