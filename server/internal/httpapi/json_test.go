package httpapi

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// TestEveryFieldInJSON: every field of every message can be written and read back. It fails when the proto
// gets a kind of field that JSON does not know yet.
func TestEveryFieldInJSON(t *testing.T) {
	for _, file := range []protoreflect.FileDescriptor{pb.File_carillon_v1_job_proto,
		pb.File_carillon_v1_run_proto, pb.File_carillon_v1_scheduler_proto,
		pb.File_carillon_v1_backfill_proto, pb.File_carillon_v1_namespace_proto} {
		for i := range file.Messages().Len() {
			md := file.Messages().Get(i)
			for variant := range 8 { // as many as the largest oneof has forms
				m := newMessage(t, md.FullName())
				(&filler{variant: variant}).fill(m.ProtoReflect())
				text := Marshal(m)
				back := newMessage(t, md.FullName())
				if _, err := Unmarshal(text, back); err != nil {
					t.Errorf("%s: %v in %s", md.Name(), err, text)
				} else {
					equal(t, string(text), m, back)
				}
			}
		}
	}
}

func newMessage(t *testing.T, name protoreflect.FullName) proto.Message {
	t.Helper()
	mt, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return mt.New().Interface()
}

// filler gives every field of a message a value that is not its zero value, different from the others.
type filler struct {
	variant, n int
}

func (f *filler) fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if od := fd.ContainingOneof(); od != nil && !od.IsSynthetic() &&
			fd.Index() != od.Fields().Get(f.variant%od.Fields().Len()).Index() {
			continue
		}
		switch {
		case fd.IsMap() && fd.MapValue().Message() != nil:
			f.fill(m.Mutable(fd).Map().Mutable(f.scalar(fd.MapKey()).MapKey()).Message())
		case fd.IsMap():
			m.Mutable(fd).Map().Set(f.scalar(fd.MapKey()).MapKey(), f.scalar(fd.MapValue()))
		case fd.IsList() && fd.Message() != nil:
			f.fill(m.Mutable(fd).List().AppendMutable().Message())
		case fd.IsList():
			m.Mutable(fd).List().Append(f.scalar(fd))
		case fd.Message() != nil:
			f.fill(m.Mutable(fd).Message())
		default:
			m.Set(fd, f.scalar(fd))
		}
	}
}

func (f *filler) scalar(fd protoreflect.FieldDescriptor) protoreflect.Value {
	f.n++
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		if fd.Name() == "nanos" { // of a timestamp
			return protoreflect.ValueOfInt32(int32(f.n))
		}
		return protoreflect.ValueOfInt32(-int32(f.n))
	case protoreflect.Int64Kind: // of a timestamp
		return protoreflect.ValueOfInt64(int64(f.n))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(f.n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1<<63 + uint64(f.n))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(f.n) + 1e-9)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(fd.Enum().Values().Get(1 + f.n%(fd.Enum().Values().Len()-1)).Number())
	case protoreflect.BytesKind:
		if f.variant%2 == 0 {
			return protoreflect.ValueOfBytes([]byte{0xff, 0, byte(f.n)})
		}
		return protoreflect.ValueOfBytes(fmt.Appendf(nil, "text %d", f.n))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprintf("%s <&\"\n%d", fd.Name(), f.n))
	}
	panic(fmt.Sprint("no value for ", fd.Kind()))
}

// TestPayloads: data is kept byte for byte, and shown as it is if it can be.
func TestPayloads(t *testing.T) {
	for _, c := range []struct{ in, data, contentType, out string }{
		{`{"data":{"kind":"daily"}}`, `{"kind":"daily"}`, "application/json", ""},
		{"{\"data\": \t{ \"a\" : 1.0e0,\n\t\"b\":[ ] }  }", "{ \"a\" : 1.0e0,\n\t\"b\":[ ] }", "application/json",
			"{\"data\":{ \"a\" : 1.0e0,\n\t\"b\":[ ] },\"content_type\":\"application/json\"}\n"},
		{`{"data":12345678901234567890.10}`, `12345678901234567890.10`, "application/json", ""},
		{`{"data":{"a":1,"a":2}}`, `{"a":1,"a":2}`, "application/json", ""},
		{`{"data":null}`, `null`, "application/json", ""},
		{`{"data":"\u00e9<"}`, `"\u00e9<"`, "application/json", ""},
		{`{"data":1,"content_type":"application/vnd.x+json; charset=utf-8"}`, `1`,
			"application/vnd.x+json; charset=utf-8",
			`{"data":1,"content_type":"application/vnd.x+json; charset=utf-8"}` + "\n"},
		{`{"content_type":"text/plain","data":"x"}`, `"x"`, "text/plain",
			`{"data_base64":"Ingi","content_type":"text/plain"}` + "\n"},
		{`{"data_base64":"/-+_"}`, "\xff\xef\xbf", "", `{"data_base64":"/++/"}` + "\n"},
		{`{"dataBase64":"eyJhIjoxfQ","contentType":"application/json"}`, `{"a":1}`, "application/json",
			`{"data":{"a":1},"content_type":"application/json"}` + "\n"},
		{`{"data_base64":""}`, "", "", "{}\n"},
		{`{"data_base64":null}`, "", "", "{}\n"},
	} {
		m := &pb.Job{}
		if _, err := Unmarshal([]byte(c.in), m); err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if string(m.GetData()) != c.data || m.GetContentType() != c.contentType {
			t.Errorf("%s: data %q of type %q", c.in, m.GetData(), m.GetContentType())
		}
		want := c.out
		if want == "" {
			want = `{"data":` + c.data + `,"content_type":"application/json"}` + "\n"
		}
		if got := string(Marshal(m)); got != want {
			t.Errorf("%s: shown as %s, want %s", c.in, got, want)
		}
	}
}

// FuzzDecode: whatever comes, there is an error that names what is wrong, or a job that can be written and
// read again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"schedule":"@daily","target":{"http":{"url":"http://x"}},"data":{"a": 1}}`,
		`{"labels":{"a":"b"},"depends_on":["x"]}`,
		`{"data_base64":"AA==","repeats":"5","failure_policy":{"exponential":{"factor":1.5}}}`,
		`{"data":null,"status":{"last_run":{"data":[]}}}`, `{`, `{"a"`, `[[`, "{\"note\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, again := &pb.Job{}, &pb.Job{}
		if _, err := Unmarshal(body, m); err != nil {
			if carillon.KindOf(err) != carillon.InvalidArgument {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		text := Marshal(m)
		if _, err := Unmarshal(text, again); err != nil {
			t.Fatalf("%q was written as %q: %v", body, text, err)
		}
		if !bytes.Equal(m.GetData(), again.GetData()) {
			t.Errorf("data %q came back as %q", m.GetData(), again.GetData())
		}
	})
}
