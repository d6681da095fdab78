package access

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// fillHeaders sets the headers of everything in a message that has some, and says in all of it that it is of
// namespace a. It returns how many places with headers there are.
func fillHeaders(m protoreflect.Message, depth int) (places int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		switch {
		case depth > 6:
		case fd.Name() == "headers" && fd.IsMap():
			places++
			m.Mutable(fd).Map().Set(protoreflect.ValueOfString("Authorization").MapKey(),
				protoreflect.ValueOfString("Bearer hunter2"))
		case fd.Kind() == protoreflect.StringKind && !fd.IsList() && fd.ContainingOneof() == nil &&
			(fd.Name() == "namespace" || m.Descriptor().FullName() == "carillon.v1.Namespace" && fd.Name() == "name"):
			m.Set(fd, protoreflect.ValueOfString("a"))
		case fd.Message() == nil || fd.IsMap() || fd.Message() == m.Descriptor():
		case fd.ContainingOneof() != nil && !holdsHeaders(fd.Message(), 0):
		case fd.IsList():
			places += fillHeaders(m.Mutable(fd).List().AppendMutable().Message(), depth+1)
		default:
			places += fillHeaders(m.Mutable(fd).Message(), depth+1)
		}
	}
	return places
}

// holdsHeaders reports whether a message has room for headers of HTTP.
func holdsHeaders(d protoreflect.MessageDescriptor, depth int) bool {
	if depth > 6 {
		return false
	}
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		if fd.Name() == "headers" && fd.IsMap() ||
			fd.Message() != nil && !fd.IsMap() && holdsHeaders(fd.Message(), depth+1) {
			return true
		}
	}
	return false
}

// TestNoReplyShowsAViewerCredentials: whatever a viewer may call. All replies are walked, so that a new call,
// or a new place in a reply, counts.
func TestNoReplyShowsAViewerCredentials(t *testing.T) {
	viewer := &Principal{Kind: KindKey, ID: "v", Grants: []carillon.AccessGrant{
		{Role: carillon.RoleViewer, Namespaces: []string{"*"}}, {Role: carillon.RoleAdmin, Namespaces: []string{"b"}}}}
	found := 0
	for method, md := range calls(t) {
		d, _ := table[method].of(message(t, md.Input()))
		if d.does != read || !holdsHeaders(md.Output(), 0) {
			continue
		}
		if md.IsStreamingServer() {
			t.Errorf("%s: nobody redacts what streams send", method)
		}
		for name, p := range map[string]*Principal{"viewer": viewer, "holder": holder("a"), "nobody": nil} {
			reply := message(t, md.Output())
			found += fillHeaders(reply.ProtoReflect(), 0)
			before := proto.Clone(reply)
			new(Gate).Redact(With(t.Context(), p), reply)
			if p == viewer && strings.Contains(prototext.Format(reply), "hunter2") {
				t.Errorf("%s: %v", method, reply)
			}
			if p != viewer && !proto.Equal(reply, before) {
				t.Errorf("%s, %s: %v", method, name, reply)
			}
		}
	}
	if found < 4*3 {
		t.Errorf("%d places with headers", found)
	}
}

// TestAProducerSeesWhatHePuts: of jobs; webhooks are an admin's.
func TestAProducerSeesWhatHePuts(t *testing.T) {
	p := &Principal{Grants: []carillon.AccessGrant{{Role: carillon.RoleProducer, Namespaces: []string{"a"}}}}
	ctx := With(t.Context(), p)
	headers := map[string]string{"Authorization": "Bearer hunter2", "Accept": "text/plain"}
	j := &pb.Job{Namespace: "a", Target: &pb.Target{Kind: &pb.Target_Http{Http: &pb.HttpTarget{Headers: headers}}}}
	new(Gate).Redact(ctx, j)
	if j.GetTarget().GetHttp().GetHeaders()["Authorization"] != "Bearer hunter2" {
		t.Errorf("%v", j)
	}
	n := &pb.Namespace{Name: "a", Webhooks: []*pb.Webhook{{Headers: headers}}}
	new(Gate).Redact(ctx, n)
	if got := n.GetWebhooks()[0].GetHeaders(); got["Authorization"] != carillon.Redacted || got["Accept"] != "text/plain" {
		t.Errorf("%v", n)
	}
	if headers["Authorization"] != "Bearer hunter2" {
		t.Error("the map that was given has changed")
	}
}

func TestWhatLooksLikeACredential(t *testing.T) {
	for header, want := range map[string]bool{
		"Authorization: Bearer abc": true, "authorization: anything": true, "Cookie: a=b": true, "X-Api-Key: 1": true,
		"X-Auth-Token: 1": true, "Proxy-Authorization: Basic eA==": true, "X-Custom: Bearer abc": true,
		"X-Custom: eyJhbGciOiJIUzI1NiJ9.e30.x": true, "X-Custom: ghp_abc": true, "X-Password: x": true, "X-Pwd: x": true, "X-Access: abc": true, "X-Private: abc": true, "X-OTP: 123456": true,
		"Accept: text/plain": false, "X-Team: billing": false, "User-Agent: carillon": false, "X-Empty-Token: ": false,
		"Authorization: secret://github": false, "Authorization: Bearer secret://github": false,
	} {
		name, value, _ := strings.Cut(header, ": ")
		if got := credential(name, value); got != want {
			t.Errorf("%s: %t", header, got)
		}
	}
}
