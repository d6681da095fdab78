package wire

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// roundTrips are a message's way to a word and back.
var roundTrips = map[string]struct {
	empty proto.Message
	there func(proto.Message) (proto.Message, error)
}{
	"Job": {&pb.Job{}, func(m proto.Message) (proto.Message, error) {
		j, err := JobFromProto(m.(*pb.Job))
		return JobToProto(&j), err
	}},
	"Run": {&pb.Run{}, func(m proto.Message) (proto.Message, error) {
		r, err := RunFromProto(m.(*pb.Run))
		return RunToProto(&r), err
	}},
	"PutJobResponse": {&pb.PutJobResponse{}, func(m proto.Message) (proto.Message, error) {
		p, err := PutFromProto(m.(*pb.PutJobResponse))
		return PutToProto(&p), err
	}},
	"PatchJobRequest": {&pb.PatchJobRequest{}, func(m proto.Message) (proto.Message, error) {
		r := m.(*pb.PatchJobRequest)
		p, err := PatchFromProto(r)
		return PatchToProto(carillon.Key{Namespace: r.GetNamespace(), Name: r.GetName()}, &p), err
	}},
	"ListJobsRequest": {&pb.ListJobsRequest{}, func(m proto.Message) (proto.Message, error) {
		q, err := JobQueryFromProto(m.(*pb.ListJobsRequest))
		return JobQueryToProto(&q), err
	}},
	"ListRunsRequest": {&pb.ListRunsRequest{}, func(m proto.Message) (proto.Message, error) {
		q, err := RunQueryFromProto(m.(*pb.ListRunsRequest))
		return RunQueryToProto(&q), err
	}},
	"BulkRunsRequest": {&pb.BulkRunsRequest{}, func(m proto.Message) (proto.Message, error) {
		b, err := BulkRunsFromProto(m.(*pb.BulkRunsRequest))
		return BulkRunsToProto(&b), err
	}},
	"BulkJobsRequest": {&pb.BulkJobsRequest{}, func(m proto.Message) (proto.Message, error) {
		b, err := BulkJobsFromProto(m.(*pb.BulkJobsRequest))
		return BulkJobsToProto(&b), err
	}},
	"BulkResponse": {&pb.BulkResponse{}, func(m proto.Message) (proto.Message, error) {
		r := BulkResultFromProto(m.(*pb.BulkResponse))
		return BulkResultToProto(&r), nil
	}},
	"CompleteRunRequest": {&pb.CompleteRunRequest{}, func(m proto.Message) (proto.Message, error) {
		r, err := CompletionFromProto(m.(*pb.CompleteRunRequest))
		return CompletionToProto(m.(*pb.CompleteRunRequest).GetNamespace(), &r), err
	}},
	"PreviewScheduleRequest": {&pb.PreviewScheduleRequest{}, func(m proto.Message) (proto.Message, error) {
		q, err := PreviewFromProto(m.(*pb.PreviewScheduleRequest))
		return PreviewToProto(&q), err
	}},
	"PreviewScheduleResponse": {&pb.PreviewScheduleResponse{}, func(m proto.Message) (proto.Message, error) {
		p := m.(*pb.PreviewScheduleResponse)
		return TimesToProto(TimesFromProto(p), p.GetHints()), nil
	}},
	"ListTimesRequest": {&pb.ListTimesRequest{}, func(m proto.Message) (proto.Message, error) {
		q, err := TimesQueryFromProto(m.(*pb.ListTimesRequest))
		return TimesQueryToProto(&q), err
	}},
	"ListTimesResponse": {&pb.ListTimesResponse{}, func(m proto.Message) (proto.Message, error) {
		t := TimetableFromProto(m.(*pb.ListTimesResponse))
		return TimetableToProto(&t), nil
	}},
	"SkipRunResponse": {&pb.SkipRunResponse{}, func(m proto.Message) (proto.Message, error) {
		s, err := SkipFromProto(m.(*pb.SkipRunResponse))
		return SkipToProto(&s), err
	}},
	"Backfill": {&pb.Backfill{}, func(m proto.Message) (proto.Message, error) {
		b, err := BackfillsFromProto([]*pb.Backfill{m.(*pb.Backfill)})
		return BackfillsToProto(b)[0], err
	}},
	"StartBackfillRequest": {&pb.StartBackfillRequest{}, func(m proto.Message) (proto.Message, error) {
		r := m.(*pb.StartBackfillRequest)
		s, err := SpecFromProto(r)
		return SpecToProto(carillon.Key{Namespace: r.GetNamespace(), Name: r.GetName()}, &s), err
	}},
	"Namespace": {&pb.Namespace{}, func(m proto.Message) (proto.Message, error) {
		n, err := NamespaceFromProto(m.(*pb.Namespace))
		return NamespaceToProto(&n), err
	}},
	"WatchRequest": {&pb.WatchRequest{}, func(m proto.Message) (proto.Message, error) {
		q := WatchQueryFromProto(m.(*pb.WatchRequest))
		return WatchQueryToProto(&q), nil
	}},
	"WatchResponse": {&pb.WatchResponse{}, func(m proto.Message) (proto.Message, error) {
		b, err := EventBatchFromProto(m.(*pb.WatchResponse))
		return EventBatchToProto(&b), err
	}},
	"Calendar": {&pb.Calendar{}, func(m proto.Message) (proto.Message, error) {
		c := CalendarFromProto(m.(*pb.Calendar))
		return CalendarToProto(&c), nil
	}},
	"PutCalendarRequest": {&pb.PutCalendarRequest{}, func(m proto.Message) (proto.Message, error) {
		c := CalendarFromProto(m.(*pb.PutCalendarRequest))
		return PutCalendarToProto(&c), nil
	}},
	"ListCalendarsRequest": {&pb.ListCalendarsRequest{}, func(m proto.Message) (proto.Message, error) {
		return CalendarQueryToProto(CalendarQueryFromProto(m.(*pb.ListCalendarsRequest))), nil
	}},
	"ListCalendarsResponse": {&pb.ListCalendarsResponse{}, func(m proto.Message) (proto.Message, error) {
		return CalendarPageToProto(CalendarPageFromProto(m.(*pb.ListCalendarsResponse))), nil
	}},
	"ListNamespacesRequest": {&pb.ListNamespacesRequest{}, func(m proto.Message) (proto.Message, error) {
		return NamespaceQueryToProto(NamespaceQueryFromProto(m.(*pb.ListNamespacesRequest))), nil
	}},
	"ListNamespacesResponse": {&pb.ListNamespacesResponse{}, func(m proto.Message) (proto.Message, error) {
		p, err := NamespacePageFromProto(m.(*pb.ListNamespacesResponse))
		return NamespacePageToProto(p), err
	}},
	"PutNamespaceRequest": {&pb.PutNamespaceRequest{}, func(m proto.Message) (proto.Message, error) {
		n, err := NamespaceFromProto(m.(*pb.PutNamespaceRequest))
		return PutNamespaceToProto(&n), err
	}},
	"Hello": {&pb.Hello{}, func(m proto.Message) (proto.Message, error) {
		h := HelloFromProto(m.(*pb.Hello))
		return HelloToProto(&h), nil
	}},
	"WorkRequest": {&pb.WorkRequest{}, func(m proto.Message) (proto.Message, error) {
		r, err := WorkRequestFromProto(m.(*pb.WorkRequest))
		back := WorkRequestToProto(&r)
		back.Hello = m.(*pb.WorkRequest).GetHello() // has a conversion of its own
		return back, err
	}},
	"WorkResponse": {&pb.WorkResponse{}, func(m proto.Message) (proto.Message, error) {
		sent := m.(*pb.WorkResponse)
		r, err := WorkResponseFromProto(sent)
		back := WorkResponseToProto(&r)
		back.Heard, back.Clock = sent.GetHeard(), sent.GetClock() // of the stream, see wire.Sent
		return back, err
	}},
}

// TestEveryProtoFieldIsCarried fails when a field of the proto is not carried in both directions.
func TestEveryProtoFieldIsCarried(t *testing.T) {
	for name, trip := range roundTrips {
		for variant := range 8 { // as many as the largest oneof has forms
			t.Run(fmt.Sprint(name, variant), func(t *testing.T) {
				m := trip.empty.ProtoReflect().New()
				filler := protoFiller{variant: variant}
				filler.fill(m, 0)
				back, err := trip.there(m.Interface())
				if err != nil {
					t.Fatal(err)
				}
				if !proto.Equal(m.Interface(), back) {
					t.Errorf("sent\n%v\ngot\n%v", m.Interface(), back)
				}
			})
		}
	}
}

// protoFiller gives every field of a message a value that is not its zero value, different from the others.
type protoFiller struct {
	variant int // which form of a oneof is set
	n       int
}

// durations are the fields of type string that hold a duration.
var durations = []string{"jitter", "late", "unserved_after", "timeout", "lease", "catch_up_window", "keep", "interval", "initial",
	"max", "jitter", "retry_after", "period"}

func (f *protoFiller) fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if od := fd.ContainingOneof(); od != nil && !od.IsSynthetic() &&
			fd.Index() != od.Fields().Get(f.variant%od.Fields().Len()).Index() {
			continue
		}
		switch {
		case fd.IsMap() && fd.MapValue().Message() != nil:
			f.fill(m.Mutable(fd).Map().Mutable(f.scalar(fd.MapKey()).MapKey()).Message(), depth+1)
		case fd.IsMap():
			m.Mutable(fd).Map().Set(f.scalar(fd.MapKey()).MapKey(), f.scalar(fd.MapValue()))
		case fd.IsList() && fd.Message() != nil:
			for range 2 {
				f.fill(m.Mutable(fd).List().AppendMutable().Message(), depth+1)
			}
		case fd.IsList():
			m.Mutable(fd).List().Append(f.scalar(fd))
		case fd.Message() != nil:
			f.fill(m.Mutable(fd).Message(), depth+1)
		default:
			m.Set(fd, f.scalar(fd))
		}
	}
	if s, ok := m.Interface().(*pb.JobStatus); ok {
		s.RunsCount = s.GetCounters().GetFired() // the same number under the name that people look for
	}
}

func (f *protoFiller) scalar(fd protoreflect.FieldDescriptor) protoreflect.Value {
	f.n++
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(f.n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(f.n))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(f.n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1<<60 + uint64(f.n))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(f.n) + 0.5)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(fd.Enum().Values().Get(1 + f.n%(fd.Enum().Values().Len()-1)).Number())
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(fmt.Appendf(nil, "%016d", f.n)) // 16 bytes: one is a uid
	case protoreflect.StringKind:
		if fd.Name() == "payload" {
			ref := carillon.PayloadRef{Day: int32(f.n), SHA256: sha256.Sum256([]byte{byte(f.n)}), Size: int64(f.n)}
			return protoreflect.ValueOfString(ref.String())
		}
		if slices.Contains(durations, string(fd.Name())) {
			return protoreflect.ValueOfString((time.Duration(f.n) * time.Second).String())
		}
		return protoreflect.ValueOfString(fmt.Sprint(fd.Name(), f.n))
	}
	panic(fmt.Sprint("no value for ", fd.Kind()))
}

// TestEveryWordIsCarried fails when a field of a word is not carried in both directions.
func TestEveryWordIsCarried(t *testing.T) {
	for _, kind := range []string{"Worker", "HTTP", "Kafka", "AMQP", "NATS", "Redis", "Exec", "Dapr"} {
		var j carillon.Job
		(&wordFiller{target: kind}).fill(reflect.ValueOf(&j).Elem(), 0)
		back, err := JobFromProto(JobToProto(&j))
		same(t, "job for "+kind, j, back, err)
	}
	var r carillon.Run
	(&wordFiller{}).fill(reflect.ValueOf(&r).Elem(), 0)
	run, err := RunFromProto(RunToProto(&r))
	same(t, "run", r, run, err)

	var req carillon.WorkRequest
	(&wordFiller{}).fill(reflect.ValueOf(&req).Elem(), 0)
	request, err := WorkRequestFromProto(WorkRequestToProto(&req))
	same(t, "work request", req, request, err)

	var resp carillon.WorkResponse
	(&wordFiller{}).fill(reflect.ValueOf(&resp).Elem(), 0)
	response, err := WorkResponseFromProto(WorkResponseToProto(&resp))
	response.Since = resp.Since // a time of this process only
	same(t, "work response", resp, response, err)

	var b carillon.Backfill
	(&wordFiller{}).fill(reflect.ValueOf(&b).Elem(), 0)
	backfill, err := BackfillFromProto(BackfillToProto(&b))
	same(t, "backfill", b, backfill, err)

	var s carillon.SkipResult
	(&wordFiller{target: "HTTP"}).fill(reflect.ValueOf(&s).Elem(), 0)
	skip, err := SkipFromProto(SkipToProto(&s))
	same(t, "skip", s, skip, err)

	var ns carillon.Namespace
	(&wordFiller{}).fill(reflect.ValueOf(&ns).Elem(), 0)
	namespace, err := NamespaceFromProto(NamespaceToProto(&ns))
	same(t, "namespace", ns, namespace, err)

	var hello carillon.Hello
	(&wordFiller{}).fill(reflect.ValueOf(&hello).Elem(), 0)
	same(t, "hello", hello, HelloFromProto(HelloToProto(&hello)), nil)
}

func same(t *testing.T, what string, want, got any, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !reflect.DeepEqual(want, got) {
		t.Errorf("%s: sent\n%+v\ngot\n%+v", what, want, got)
	}
}

// wordFiller gives every field of a word a value that is not its zero value.
type wordFiller struct {
	target string // the kind of a job's target
	n      int
}

// enumValue is a value that every enum of the words has.
const enumValue = 1

func (f *wordFiller) fill(v reflect.Value, depth int) {
	f.n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(int64(f.n), 5).UTC()))
		return
	case time.Duration:
		v.SetInt(int64(f.n) * int64(time.Millisecond))
		return
	case carillon.When:
		v.Set(reflect.ValueOf(carillon.WhenText(fmt.Sprint("when", f.n))))
		return
	case carillon.Data:
		d := carillon.Bytes([]byte{byte(f.n)}, fmt.Sprint("type", f.n))
		d.Ref = &carillon.PayloadRef{Day: int32(f.n), SHA256: sha256.Sum256(d.Bytes), Size: 1}
		v.Set(reflect.ValueOf(d))
		return
	case carillon.FailurePolicy: // its fields depend on its kind: see TestEveryPolicyIsCarried
		v.Set(reflect.ValueOf(carillon.Constant(time.Minute).WithMaxRetries(3)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		f.fillStruct(v, depth)
	case reflect.Pointer:
		if depth < 4 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte{byte(f.n)})
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.fill(v.Index(0), depth+1)
		f.fill(v.Index(1), depth+1)
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(i + 1))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		f.fill(value, depth+1)
		v.SetMapIndex(reflect.ValueOf(fmt.Sprint("k", f.n)), value)
	case reflect.String:
		v.SetString(fmt.Sprint("text", f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(enumValue)
	case reflect.Float64:
		v.SetFloat(float64(f.n) + 0.5)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(f.n))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(f.n))
	default:
		panic("no value for " + v.Type().String())
	}
}

func (f *wordFiller) fillStruct(v reflect.Value, depth int) {
	for i := range v.NumField() {
		if v.Type() == reflect.TypeFor[carillon.Target]() && v.Type().Field(i).Name != f.target {
			continue // exactly one
		}
		f.fill(v.Field(i), depth+1)
	}
}

func TestEveryPolicyIsCarried(t *testing.T) {
	retries := uint32(7)
	for _, p := range []carillon.FailurePolicy{
		{},
		{OnExhausted: carillon.ExhaustedDead},
		{PauseAfter: 7},
		carillon.Drop(),
		{Kind: carillon.PolicyDrop, OnExhausted: carillon.ExhaustedDrop},
		carillon.Constant(3 * time.Second),
		carillon.Constant(0).WithMaxRetries(0),
		carillon.OnSchedule("@daily").WithMaxRetries(2),
		{Kind: carillon.PolicyExponential, Initial: time.Second, Factor: 1.5, Max: time.Minute,
			Jitter: time.Millisecond, MaxRetries: &retries, OnExhausted: carillon.ExhaustedDead},
	} {
		j := carillon.Job{FailurePolicy: p}
		back, err := JobFromProto(JobToProto(&j))
		same(t, "policy", p, back.FailurePolicy, err)
	}
}

// TestSeveralTargets: a target of two kinds must not cross as one of them.
func TestSeveralTargets(t *testing.T) {
	j := carillon.Job{Target: carillon.HTTP("http://x")}
	j.Target.Worker = &carillon.WorkerTarget{Queue: "q"}
	back, err := JobFromProto(JobToProto(&j))
	if err != nil || back.Target.Kind() != "" {
		t.Errorf("crossed as %q, %v", back.Target.Kind(), err)
	}
}

// TestForeignText: what is not UTF-8 must not make a message that cannot be sent.
func TestForeignText(t *testing.T) {
	const bad = "caf\xe9"
	run := carillon.Run{Worker: bad, Reason: bad, Errors: []carillon.AttemptError{{Message: bad}},
		Progress: &carillon.Progress{Message: bad}}
	req := carillon.WorkRequest{Results: []carillon.Result{{Message: bad,
		Progress: carillon.Progress{Message: bad}}}}
	for _, m := range []proto.Message{
		RunToProto(&run), WorkRequestToProto(&req), CompletionToProto("ns", &req.Results[0]),
		ProblemToProto(&carillon.Error{Message: bad, Field: bad}),
	} {
		if _, err := proto.Marshal(m); err != nil {
			t.Errorf("%T: %v", m, err)
		}
	}
	if got := RunToProto(&run).GetErrors()[0].GetMessage(); !strings.HasPrefix(got, "caf") {
		t.Errorf("message became %q", got)
	}
}
