package access

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
	daprpb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
)

// TestEveryCallHasItsEffect: what only reads is called so, and the roles of a viewer may do it; whatever else
// there is changes something, or is a worker's. A call of which nobody has said it is none that reads.
func TestEveryCallHasItsEffect(t *testing.T) {
	reads := []string{"Get", "List", "Preview", "Watch", "Verify"}
	for method := range calls(t) {
		name := method[strings.LastIndexByte(method, '/')+1:]
		is := Changes
		for _, r := range reads {
			if strings.HasPrefix(name, r) {
				is = Reads
			}
		}
		if name == "Work" || name == "CompleteRun" {
			is = Works
		}
		if e := EffectOf(method); e != is && (e != Spreads || is != Changes) {
			t.Errorf("%s: %d, want %d", method, e, is)
		}
	}
	sidecars := daprpb.File_dapr_proto_scheduler_v1_scheduler_proto.Services().ByName("Scheduler").Methods()
	for i := range sidecars.Len() {
		name := string(sidecars.Get(i).Name())
		is := Reads
		switch {
		case name == "WatchJobs":
			is = Works
		case strings.HasPrefix(name, "Schedule"), strings.HasPrefix(name, "Delete"):
			is = Changes
		case !slices.Contains([]string{"GetJob", "ListJobs", "WatchHosts"}, name):
			t.Errorf("of %s nobody has said what it does", name)
		}
		if e := EffectOf(DaprScheduler + name); e != is && (e != Spreads || is != Changes) {
			t.Errorf("%s: %d, want %d", name, e, is)
		}
	}
	for method := range effects {
		if name, dapr := strings.CutPrefix(method, DaprScheduler); dapr {
			if sidecars.ByName(protoreflect.Name(name)) == nil {
				t.Errorf("there is no call %s", method)
			}
			continue
		}
		if strings.HasPrefix(method, etcd) {
			continue // package etcdapi, which has them, tests them
		}
		if _, ok := table[method]; !ok {
			t.Errorf("there is no call %s", method)
		}
	}
}

const planted = "S3CRET"

// fillAll sets every field of a message, at any depth, each text to one with the secret.
func fillAll(m protoreflect.Message, depth int) {
	if depth > 4 {
		return
	}
	value := func(f protoreflect.FieldDescriptor, fresh func() protoreflect.Value) protoreflect.Value {
		switch f.Kind() {
		case protoreflect.StringKind:
			return protoreflect.ValueOfString(planted + string(f.Name()))
		case protoreflect.BytesKind:
			return protoreflect.ValueOfBytes([]byte(planted))
		case protoreflect.BoolKind:
			return protoreflect.ValueOfBool(true)
		case protoreflect.EnumKind:
			return protoreflect.ValueOfEnum(1)
		case protoreflect.MessageKind:
			v := fresh()
			fillAll(v.Message(), depth+1)
			return v
		case protoreflect.DoubleKind:
			return protoreflect.ValueOfFloat64(7)
		case protoreflect.Int32Kind, protoreflect.Sint32Kind:
			return protoreflect.ValueOfInt32(7)
		case protoreflect.Uint32Kind:
			return protoreflect.ValueOfUint32(7)
		case protoreflect.Uint64Kind:
			return protoreflect.ValueOfUint64(7)
		default:
			return protoreflect.ValueOfInt64(7)
		}
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case f.IsMap():
			all := m.Mutable(f).Map()
			all.Set(protoreflect.ValueOfString(planted+"key").MapKey(), value(f.MapValue(), all.NewValue))
		case f.IsList():
			all := m.Mutable(f).List()
			all.Append(value(f, all.NewElement))
		default:
			m.Set(f, value(f, func() protoreflect.Value { return m.NewField(f) }))
		}
	}
}

// TestSubjectsHaveNoValues: of a request with a secret in each of its fields, an entry has names of its fields,
// and what it is about. Whatever a new call has, it is no part of an entry.
func TestSubjectsHaveNoValues(t *testing.T) {
	about := []string{planted + "name", planted + "id", planted + "prefix", planted + "job", planted + "namespace"}
	for method, md := range calls(t) {
		m := message(t, md.Input())
		fillAll(m.ProtoReflect(), 0)
		s := SubjectOf(method, m)
		for _, name := range about {
			if s.Resource == name {
				s.Resource = ""
			}
		}
		if s.Namespace == planted+"namespace" || s.Namespace == planted+"name" {
			s.Namespace = ""
		}
		if text := fmt.Sprint(s); strings.Contains(text, planted) {
			t.Errorf("%s: %s", method, text)
		}
		if e := EffectOf(method); (e == Changes || e == Spreads) && len(s.Fields) == 0 && hasMore(m) {
			t.Errorf("%s: no field of %v", method, m)
		}
	}
}

// hasMore reports whether a message has a field besides those that say what it is about.
func hasMore(m proto.Message) (more bool) {
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		for _, name := range where {
			if f.Name() == name {
				return true
			}
		}
		more = true
		return true
	})
	return more
}

// TestSubjects: what requests are about, and which of their fields are set.
func TestSubjects(t *testing.T) {
	job := &pb.Job{Name: "j", Schedule: "@hourly"}
	for _, c := range []struct {
		m    proto.Message
		want Subject
	}{
		{nil, Subject{}},
		{&pb.PutJobRequest{Name: "n", Job: job, IfGeneration: 3},
			Subject{Namespace: "default", Resource: "n", Fields: []string{"if_generation", "schedule"}}},
		{&pb.PutJobRequest{Job: &pb.Job{Namespace: "a", Name: "j"}}, Subject{Namespace: "a", Resource: "j"}},
		{&pb.PatchJobRequest{Name: "n", Job: job, Fields: []string{"history.runs", "note", "no such"}},
			Subject{Namespace: "default", Resource: "n", Fields: []string{"history", "note"}}},
		{&pb.BatchPutJobsRequest{Jobs: []*pb.Job{job, {Note: "x"}}},
			Subject{Namespace: "default", Resource: "j", Fields: []string{"note", "schedule"}}},
		{&pb.PutNamespaceRequest{Name: "a", Strict: true}, Subject{Namespace: "a", Fields: []string{"strict"}}},
		{&pb.DrainNodeRequest{Id: "n1"}, Subject{Resource: "n1"}},
		{&pb.RedriveRunsRequest{Job: "j"}, Subject{Namespace: "default", Resource: "j", Fields: []string{"job"}}},
		{&pb.BulkRunsRequest{Job: "j"}, Subject{Namespace: "default", Resource: "j", Fields: []string{"job"}}},
	} {
		if got := SubjectOf("", c.m); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v: %+v, want %+v", c.m, got, c.want)
		}
	}
}
