package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// calls returns every rpc of the contract, by full method name.
func calls(t *testing.T) map[string]protoreflect.MethodDescriptor {
	t.Helper()
	all := map[string]protoreflect.MethodDescriptor{}
	protoregistry.GlobalFiles.RangeFilesByPackage("carillon.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				all[fmt.Sprintf("/%s/%s", s.FullName(), s.Methods().Get(j).Name())] = s.Methods().Get(j)
			}
		}
		return true
	})
	if len(all) < 40 {
		t.Fatalf("%d calls", len(all))
	}
	return all
}

// message makes an empty request of a call.
func message(t *testing.T, d protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	mt, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return mt.New().Interface()
}

// TestTableIsComplete: each rpc has a rule for its message, and there is no rule for anything else.
func TestTableIsComplete(t *testing.T) {
	all := calls(t)
	for method, md := range all {
		r, ok := table[method]
		if !ok {
			t.Errorf("%s is not in the table", method)
			continue
		}
		d, ok := r.of(message(t, md.Input()))
		if !ok {
			t.Errorf("%s: its rule is for another message than %s", method, md.Input().Name())
		}
		if !d.nothing && (d.does == nil || len(d.namespaces) == 0 && !d.anywhere) {
			t.Errorf("%s demands nothing", method)
		}
		if r.first && !md.IsStreamingClient() {
			t.Errorf("%s has one message", method)
		}
	}
	for method := range table {
		if all[method] == nil {
			t.Errorf("%s is in the table, and no call", method)
		}
	}
}

// holder has every role in namespace a, and nothing elsewhere.
func holder(namespaces ...string) *Principal {
	p := &Principal{Kind: KindKey, ID: "test"}
	for _, role := range carillon.Roles() {
		p.Grants = append(p.Grants, carillon.AccessGrant{Role: role, Namespaces: namespaces})
	}
	return p
}

// TestUnknownIsRefused: also to who may do everything.
func TestUnknownIsRefused(t *testing.T) {
	for _, method := range []string{"", "/carillon.v1.SchedulerService/Other", "/dapr.proto.scheduler.v1.Scheduler/ScheduleJob"} {
		if err := Judge(holder("*"), method, nil); !errors.Is(err, carillon.PermissionDenied) {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// places calls f with each way to a namespace in a message: the fields that lead to it.
func places(d protoreflect.MessageDescriptor, way []protoreflect.FieldDescriptor,
	f func(way []protoreflect.FieldDescriptor)) {
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		if fd.Name() == "status" || len(way) > 3 { // what a job says of itself is not read
			continue
		}
		to := slices.Concat(way, []protoreflect.FieldDescriptor{fd})
		switch {
		case fd.Name() == "namespace" || fd.Name() == "namespaces":
			f(to)
		case fd.Message() != nil && !fd.IsMap():
			places(fd.Message(), to, f)
		}
	}
}

// set sets the namespace at a way.
func set(m protoreflect.Message, way []protoreflect.FieldDescriptor, namespace string) {
	for _, fd := range way[:len(way)-1] {
		if fd.IsList() {
			m = m.Mutable(fd).List().AppendMutable().Message()
		} else {
			m = m.Mutable(fd).Message()
		}
	}
	last, v := way[len(way)-1], protoreflect.ValueOfString(namespace)
	if last.IsList() {
		m.Mutable(last).List().Append(v)
		return
	}
	m.Set(last, v)
}

// TestEachNamespaceOfARequestCounts: wherever a request has room for a namespace, a foreign one there is
// refused although all others are the caller's own, and in the words of what is not there.
func TestEachNamespaceOfARequestCounts(t *testing.T) {
	n := 0
	for method, md := range calls(t) {
		places(md.Input(), nil, func(foreign []protoreflect.FieldDescriptor) {
			m := message(t, md.Input())
			places(md.Input(), nil, func(own []protoreflect.FieldDescriptor) { set(m.ProtoReflect(), own, "a") })
			if err := Judge(holder("a"), method, m); err != nil {
				t.Errorf("%s: own: %v", method, err)
			}
			set(m.ProtoReflect(), foreign, "b")
			err := Judge(holder("a"), method, m)
			if !errors.Is(err, carillon.NotFound) {
				t.Errorf("%s at %v: %v", method, foreign, err)
			}
			n++
		})
	}
	if n < 40 {
		t.Errorf("only %d places were found", n)
	}
}

// TestEmptyIsTheDefaultNamespace, or all of them: never none.
func TestEmptyIsTheDefaultNamespace(t *testing.T) {
	for method, md := range calls(t) {
		if d, _ := table[method].of(message(t, md.Input())); d.nothing || d.anywhere {
			continue
		}
		if err := Judge(holder("a", "defaul", "default-*"), method, message(t, md.Input())); err == nil {
			t.Errorf("%s: nothing said was granted", method)
		}
		if err := Judge(holder("*"), method, message(t, md.Input())); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// TestRoles: what each may do in its namespace, and the error names the least role that would do.
func TestRoles(t *testing.T) {
	may := map[carillon.Role]string{
		"viewer":   "GetJob ListRuns GetPayload Watch ListQueues ListIngests GetNamespace",
		"worker":   "Work CompleteRun GetPayload",
		"producer": "GetJob PutJob PutJobs BatchPutJobs TriggerJob DeleteJobs PutPayload GetPayload",
		"operator": "GetJob PutJob PauseJob CancelRun StartBackfill PauseQueue PurgeQueue PutCalendar BulkRuns",
		"admin":    "GetJob PutJob PauseJob PutNamespace CreateKey ListKeys RotateKey RevokeKey Work",
	}
	mayNot := map[carillon.Role]string{
		"viewer":   "PutJob TriggerJob CancelRun PutPayload PutNamespace Work CompleteRun CreateKey",
		"worker":   "GetJob ListJobs PutJob ListRuns GetRun Watch ListQueues ListIngests PutPayload RotateKey RevokeKey",
		"producer": "PauseJob CancelRun RedriveRuns BulkRuns PutCalendar PauseQueue PutNamespace Work ListKeys",
		"operator": "PutNamespace Work CreateKey RotateKey",
		"admin":    "GetCluster DrainNode Rebalance CollectPayloads ListNamespaces WatchNodes", // which need all
	}
	judge := func(role carillon.Role, names string, check func(name string, err error)) {
		p := &Principal{Grants: []carillon.AccessGrant{{Role: role, Namespaces: []string{"a"}}}}
		for name := range strings.FieldsSeq(names) {
			for method, md := range calls(t) {
				if strings.HasSuffix(method, "/"+name) {
					m := message(t, md.Input())
					places(md.Input(), nil, func(w []protoreflect.FieldDescriptor) { set(m.ProtoReflect(), w, "a") })
					if fd := md.Input().Fields().ByName("name"); fd != nil && strings.HasSuffix(name, "Namespace") {
						m.ProtoReflect().Set(fd, protoreflect.ValueOfString("a"))
					}
					check(name, Judge(p, method, m))
				}
			}
		}
	}
	for role, names := range may {
		judge(role, names, func(name string, err error) {
			if err != nil {
				t.Errorf("%s may %s: %v", role, name, err)
			}
		})
	}
	for role, names := range mayNot {
		judge(role, names, func(name string, err error) {
			if !errors.Is(err, carillon.PermissionDenied) || !strings.Contains(err.Error(), "the role ") {
				t.Errorf("%s may not %s: %v", role, name, err)
			}
		})
	}
}

// TestAnotherMessageIsRefused: a rule never judges what it cannot read.
func TestAnotherMessageIsRefused(t *testing.T) {
	empty := dynamicpb.NewMessage(calls(t)["/carillon.v1.SchedulerService/GetJob"].Input())
	if err := Judge(holder("*"), "/carillon.v1.SchedulerService/GetJob", empty); err == nil {
		t.Error("it was granted")
	}
}

// TestADemandOfNothingIsRefused: a rule that has forgotten to say of which namespaces opens nothing.
func TestADemandOfNothingIsRefused(t *testing.T) {
	if err := holder("*").judge(&demand{does: read}); !errors.Is(err, carillon.PermissionDenied) {
		t.Error(err)
	}
}

// TestNodesAreForAdminsOfAll: a webhook of a namespace tells of nodes only if an admin of everything wants it.
func TestNodesAreForAdminsOfAll(t *testing.T) {
	for types, want := range map[string]bool{"": true, "run": true, "run.failed job": true,
		"node": false, "node.joined": false, "node.*": false, "run node.left": false} {
		m := &pb.PutNamespaceRequest{Name: "a", Webhooks: []*pb.Webhook{{}, {Types: strings.Fields(types)}}}
		method := pb.SchedulerService_PutNamespace_FullMethodName
		if err := Judge(holder("a"), method, m); (err == nil) != want || err != nil && !errors.Is(err, carillon.PermissionDenied) {
			t.Errorf("%q: %v", types, err)
		}
		if err := Judge(holder("*"), method, m); err != nil {
			t.Errorf("%q, admin of all: %v", types, err)
		}
	}
}
