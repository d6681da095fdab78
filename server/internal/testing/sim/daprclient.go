package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/carillonhq/carillon"
	common "github.com/carillonhq/carillon/api/dapr/proto/common/v1"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/daprapi"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/store"
)

// queueOf is the queue of a target in the checker's words.
func queueOf(t *carillon.DaprTarget) string { return checker.DaprQueue + t.Address() }

// daprQueues are the queues of the plan's jobs with their namespaces, in order.
func (p *Plan) daprQueues() []string {
	seen := map[string]bool{}
	for i := range p.Ops {
		if s := p.Ops[i].Spec; s != nil && strings.HasPrefix(s.Queue, checker.DaprQueue) {
			seen[p.Ops[i].Namespace+"/"+s.Queue] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// targetOf is the target of a job of Dapr with that name: dapr/app/APP/NAME or dapr/actor/TYPE/ID/NAME. The
// names of a plan need no encoding.
func targetOf(job string) (t carillon.DaprTarget, name string) {
	levels := strings.Split(job, "/")
	name = levels[len(levels)-1]
	if levels[1] == "app" {
		t.AppID = levels[2]
	} else {
		t.AppID, t.ActorType, t.ActorID = "shop", levels[2], levels[3]
	}
	return t, name
}

// metadataOf is the metadata of a job of Dapr.
func metadataOf(namespace string, t carillon.DaprTarget) *pb.JobMetadata {
	m := &pb.JobMetadata{AppId: t.AppID, Namespace: namespace, Target: &pb.JobTargetMetadata{
		Type: &pb.JobTargetMetadata_Job{Job: &pb.TargetJob{}}}}
	if t.ActorType != "" {
		m.Target.Type = &pb.JobTargetMetadata_Actor{
			Actor: &pb.TargetActorReminder{Type: t.ActorType, Id: t.ActorID}}
	}
	if t.ConcurrencyKey != "" {
		m.ConcurrencyKey = &t.ConcurrencyKey
	}
	return m
}

// keyOf is the name that a job is kept under, from what a sidecar is told.
func keyOf(m *pb.JobMetadata, name string) carillon.Key {
	t := carillon.DaprTarget{AppID: m.GetAppId()}
	if a := m.GetTarget().GetActor(); a != nil {
		t.ActorType, t.ActorID = a.GetType(), a.GetId()
	}
	return carillon.Key{Namespace: m.GetNamespace(), Name: t.Prefix() + name}
}

// daprJob is a job in the words of Dapr's protocol.
func daprJob(s *checker.Job) *pb.Job {
	j := &pb.Job{Data: &anypb.Any{TypeUrl: "sim", Value: []byte(s.Payload)}}
	if s.Schedule != "" {
		j.Schedule = &s.Schedule
	}
	switch {
	case s.Relative:
		j.DueTime = new(s.DueIn.String())
	case !s.Due.IsZero():
		j.DueTime = new(s.Due.UTC().Format(time.RFC3339Nano))
	}
	if s.TTL > 0 {
		j.Ttl = new(s.TTL.String())
	}
	if s.Repeats > 0 {
		j.Repeats = new(uint32(s.Repeats))
	}
	j.FailurePolicy = daprPolicy(s.Policy)
	return j
}

// daprPolicy is a failure policy in the words of Dapr's protocol; nil if it is the one that goes without
// saying.
func daprPolicy(p checker.Policy) *common.JobFailurePolicy {
	switch {
	case p.Kind == "drop":
		return &common.JobFailurePolicy{Policy: &common.JobFailurePolicy_Drop{Drop: &common.JobFailurePolicyDrop{}}}
	case p.Interval == time.Second && p.MaxRetries != nil && *p.MaxRetries == 3:
		return nil
	}
	constant := &common.JobFailurePolicyConstant{Interval: durationpb.New(p.Interval)}
	if p.MaxRetries != nil {
		constant.MaxRetries = new(uint32(*p.MaxRetries))
	}
	return &common.JobFailurePolicy{Policy: &common.JobFailurePolicy_Constant{Constant: constant}}
}

// payloadOf is the payload of a job's or run's data: what is in the google.protobuf.Any of a job of Dapr.
func payloadOf(d *carillon.Data) string {
	var a anypb.Any
	if d.ContentType == "application/protobuf" && proto.Unmarshal(d.Bytes, &a) == nil {
		return string(a.GetValue())
	}
	return string(d.Bytes)
}

// uidOf is the uid in the id of a run.
func uidOf(run string) string {
	id, err := store.ParseRunID(run)
	if err != nil {
		return ""
	}
	return id.UID.String()
}

// tap listens to what the face is told by the node: sidecars do not hear when the first run is, nor which job
// it is that they have put.
type tap struct {
	carillon.Jobs
	client *client
	answer *checker.Answer
	err    error
}

// PutJob is for [carillon.Jobs].
func (t *tap) PutJob(ctx context.Context, j carillon.Job,
	opts ...carillon.PutOption) (carillon.PutResult, error) {
	p, err := t.Jobs.PutJob(ctx, j, opts...)
	t.err, t.answer.Created, t.answer.Changed = err, p.Created, p.Changed
	t.client.told(t.answer, p.Job, err)
	return p, err
}

// GetJob is for [carillon.Jobs].
func (t *tap) GetJob(ctx context.Context, key carillon.Key) (carillon.Job, error) {
	j, err := t.Jobs.GetJob(ctx, key)
	t.err = err
	t.client.told(t.answer, j, err)
	return j, err
}

// DeleteJob is for [carillon.Jobs].
func (t *tap) DeleteJob(ctx context.Context, key carillon.Key,
	opts ...carillon.DeleteOption) (carillon.DeleteResult, error) {
	d, err := t.Jobs.DeleteJob(ctx, key, opts...)
	t.err = err
	return d, err
}

// DeleteJobs is for [carillon.Jobs].
func (t *tap) DeleteJobs(ctx context.Context, namespace, prefix string) (int, error) {
	n, err := t.Jobs.DeleteJobs(ctx, namespace, prefix)
	t.err, t.answer.Deleted = err, n
	return n, err
}

// doDapr does an operation as a sidecar does, by Dapr's face of a node.
func (c *client) doDapr(o *Op, rec checker.Op) {
	target, name := targetOf(o.Job)
	rec.Replace = o.Kind == checker.Put && !o.IfAbsent
	c.ask(rec, func(ctx context.Context, api Scheduler, a *checker.Answer) error {
		t := &tap{Jobs: api, client: c, answer: a}
		s := daprapi.New(t, nil, daprapi.Options{})
		var err error
		switch o.Kind {
		case checker.Put:
			target.ConcurrencyKey = o.Spec.ConcurrencyKey
			_, err = s.ScheduleJob(ctx, &pb.ScheduleJobRequest{Name: name, Metadata: metadataOf(o.Namespace, target),
				Job: daprJob(o.Spec), Overwrite: !o.IfAbsent})
		case checker.Get:
			var r *pb.GetJobResponse
			r, err = s.GetJob(ctx, &pb.GetJobRequest{Name: name, Metadata: metadataOf(o.Namespace, target)})
			a.Found, a.Payload = err == nil, string(r.GetJob().GetData().GetValue())
		case checker.Delete:
			_, err = s.DeleteJob(ctx, &pb.DeleteJobRequest{Name: name, Metadata: metadataOf(o.Namespace, target)})
		case checker.DeletePrefix:
			_, err = s.DeleteByNamePrefix(ctx, &pb.DeleteByNamePrefixRequest{NamePrefix: name,
				Metadata: metadataOf(o.Namespace, target)})
		default:
			return fmt.Errorf("sim: the plan asks a sidecar for %q", o.Kind)
		}
		return t.outcome(o, err)
	})
}

// outcome is how a call went, as the node told the face: its codes say less. What the face answers must be of
// the same mind.
func (t *tap) outcome(o *Op, err error) error {
	switch {
	case t.err == nil && err != nil:
		t.client.w.fail(fmt.Errorf("%s of %s: the node has done it, and the face says %w", o.Kind, o.Job, err))
	case errors.Is(t.err, carillon.AlreadyExists) != (status.Code(err) == codes.AlreadyExists):
		t.client.w.fail(fmt.Errorf("%s of %s: the node says %w, and the face says %w", o.Kind, o.Job, t.err, err))
	case o.Kind == checker.Get && errors.Is(t.err, carillon.NotFound):
		return nil
	}
	return t.err
}
