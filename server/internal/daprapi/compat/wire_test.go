package compat

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	_ "google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	dapr "github.com/dapr/dapr/pkg/proto/scheduler/v1"
	sentry "github.com/dapr/dapr/pkg/proto/sentry/v1"
)

// theirs is Dapr's description of the protocol, theirSentry that of its certificate authority's.
var (
	theirs      = dapr.File_dapr_proto_scheduler_v1_scheduler_proto
	theirSentry = sentry.File_dapr_proto_sentry_v1_sentry_proto
)

// ours are Carillon's descriptions of the protocols.
var ours = sync.OnceValues(func() (*known, error) {
	run := exec.Command("go", "run", "./descriptors")
	run.Stderr = os.Stderr
	b, err := run.Output()
	if err != nil {
		return nil, err
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(b, set); err != nil {
		return nil, err
	}
	files := &known{}
	for _, f := range set.File {
		file, err := protodesc.NewFile(f, files)
		if err != nil {
			return nil, err
		}
		if err := files.own.RegisterFile(file); err != nil {
			return nil, err
		}
	}
	return files, nil
})

// known finds Carillon's files before those that this program links.
type known struct{ own protoregistry.Files }

func (k *known) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if f, err := k.own.FindFileByPath(path); err == nil {
		return f, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

func (k *known) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := k.own.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}

// ourFile is Carillon's description of what a file of Dapr's describes.
func ourFile(t *testing.T, their protoreflect.FileDescriptor) protoreflect.FileDescriptor {
	t.Helper()
	files, err := ours()
	if err != nil {
		t.Fatal(err)
	}
	f, err := files.own.FindFileByPath(their.Path())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestDescriptors: every service, call, message, field and enum is Dapr's, and there is none besides.
func TestDescriptors(t *testing.T) {
	got, want := describe(ourFile(t, theirs)), describe(theirs)
	if len(want) < 100 {
		t.Fatalf("only %d facts: the descriptors were not understood", len(want))
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("missing: %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("not Dapr's: %s", line)
		}
	}
}

// TestSentry: all that Carillon says to sentry, or hears from it, is Dapr's; sentry knows more than is
// needed.
func TestSentry(t *testing.T) {
	got, want := describe(ourFile(t, theirSentry)), describe(theirSentry)
	if len(got) < 15 {
		t.Fatalf("only %d facts: the descriptors were not understood", len(got))
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("not Dapr's: %s", line)
		}
	}
}

// describe is what matters on the wire about all that a file has or uses of Dapr's, one fact a line.
func describe(f protoreflect.FileDescriptor) []string {
	var facts []string
	say := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	seen := map[protoreflect.FullName]bool{}
	for i := range f.Services().Len() {
		s := f.Services().Get(i)
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			say("rpc %s(%v %s) %v %s", m.FullName(), m.IsStreamingClient(), m.Input().FullName(),
				m.IsStreamingServer(), m.Output().FullName())
		}
	}
	for i := range f.Enums().Len() {
		describeEnum(f.Enums().Get(i), say, seen)
	}
	for i := range f.Messages().Len() {
		describeMessage(f.Messages().Get(i), say, seen)
	}
	slices.Sort(facts)
	return facts
}

func describeEnum(e protoreflect.EnumDescriptor, say func(string, ...any),
	seen map[protoreflect.FullName]bool) {
	if seen[e.FullName()] {
		return
	}
	seen[e.FullName()] = true
	for i := range e.Values().Len() {
		v := e.Values().Get(i)
		say("enum %s %s = %d, closed %v", e.FullName(), v.Name(), v.Number(), e.IsClosed())
	}
}

func describeMessage(m protoreflect.MessageDescriptor, say func(string, ...any),
	seen map[protoreflect.FullName]bool) {
	if seen[m.FullName()] {
		return
	}
	seen[m.FullName()] = true
	say("message %s", m.FullName())
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		of := ""
		if o := f.ContainingOneof(); o != nil {
			of = string(o.Name())
		}
		say("field %s = %d, %v %v, json %s, oneof %q, presence %v, packed %v", f.FullName(), f.Number(),
			f.Cardinality(), f.Kind(), f.JSONName(), of, f.HasPresence(), f.IsPacked())
		switch {
		case f.Message() != nil:
			say("field %s is %s", f.FullName(), f.Message().FullName())
			describeMessage(f.Message(), say, seen)
		case f.Enum() != nil:
			say("field %s is %s", f.FullName(), f.Enum().FullName())
			describeEnum(f.Enum(), say, seen)
		}
	}
}

// TestMessages: what Dapr's package encodes is understood here and encoded to the same bytes, and the other
// way around.
func TestMessages(t *testing.T) {
	mine := ourFile(t, theirs)
	rapid.Check(t, func(rt *rapid.T) {
		i := rapid.IntRange(0, theirs.Messages().Len()-1).Draw(rt, "message")
		d := theirs.Messages().Get(i)
		kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
		if err != nil {
			rt.Fatal(err)
		}
		m := kind.New()
		fill(rt, m, 0)
		deterministic := proto.MarshalOptions{Deterministic: true}
		want, err := deterministic.Marshal(m.Interface())
		if err != nil {
			rt.Fatal(err)
		}
		other := dynamicpb.NewMessage(mine.Messages().ByName(d.Name()))
		if err := proto.Unmarshal(want, other); err != nil {
			rt.Fatalf("%s: %v", d.FullName(), err)
		}
		if holdsUnknown(other) {
			rt.Fatalf("%s: there are fields that are not known here: %v", d.FullName(), other)
		}
		got, err := deterministic.Marshal(other)
		if err != nil || !bytes.Equal(got, want) {
			rt.Fatalf("%s: Dapr has % x, Carillon has % x (%v)", d.FullName(), want, got, err)
		}
		back := kind.New().Interface()
		if err := proto.Unmarshal(got, back); err != nil || !proto.Equal(back, m.Interface()) {
			rt.Fatalf("%s: it came back as %v (%v)", d.FullName(), back, err)
		}
	})
}

// fill sets fields at random.
func fill(rt *rapid.T, m protoreflect.Message, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if depth > 6 || !rapid.Bool().Draw(rt, "set") {
			continue
		}
		if !f.IsList() {
			m.Set(f, valueOf(rt, f, func() protoreflect.Value { return m.NewField(f) }, depth))
			continue
		}
		list := m.Mutable(f).List()
		for range rapid.IntRange(0, 3).Draw(rt, "length") {
			list.Append(valueOf(rt, f, list.NewElement, depth))
		}
	}
}

func valueOf(rt *rapid.T, f protoreflect.FieldDescriptor, empty func() protoreflect.Value,
	depth int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.MessageKind:
		v := empty()
		fill(rt, v.Message(), depth+1)
		return v
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.Int32Range(0, 9).Draw(rt, "enum")))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.String().Draw(rt, "text"))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SliceOf(rapid.Byte()).Draw(rt, "bytes"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(rt, "bool"))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(rt, "int32"))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32().Draw(rt, "uint32"))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(rt, "int64"))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(rt, "uint64"))
	default:
		rt.Fatalf("%s is of kind %v, which this test does not make", f.FullName(), f.Kind())
		return protoreflect.Value{}
	}
}

// holdsUnknown reports whether a message, or one in it, has fields that its description does not know.
func holdsUnknown(m protoreflect.Message) bool {
	found := len(m.GetUnknown()) > 0
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				found = found || holdsUnknown(v.List().Get(i).Message())
			}
		default:
			found = found || holdsUnknown(v.Message())
		}
		return true
	})
	return found
}
