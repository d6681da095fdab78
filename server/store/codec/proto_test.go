package codec

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/store"
)

// codecs are the encoders and decoders by the name of their message in record.proto.
var codecs = map[string]struct {
	value  any // a pointer to the zero value
	encode func(any) []byte
	decode func([]byte) (any, error)
}{
	"Spec": {
		new(carillon.Job),
		func(v any) []byte { return EncodeSpec(v.(*carillon.Job)) },
		func(b []byte) (any, error) { j, err := DecodeSpec(b, carillon.Key{}); return &j, err },
	},
	"State": {
		new(store.State),
		func(v any) []byte { return AppendState(nil, v.(*store.State)) },
		func(b []byte) (any, error) { s, err := DecodeState(b); return &s, err },
	},
	"RunRecord": {
		new(store.RunRecord),
		func(v any) []byte { return AppendRun(nil, v.(*store.RunRecord)) },
		func(b []byte) (any, error) { r, err := DecodeRun(b); return &r, err },
	},
	"Namespace": {
		new(carillon.Namespace),
		func(v any) []byte { return EncodeNamespace(v.(*carillon.Namespace)) },
		func(b []byte) (any, error) { n, err := DecodeNamespace(b, ""); return &n, err },
	},
	"QueuePause": {
		new(carillon.QueuePause),
		func(v any) []byte { return EncodeQueuePause(v.(*carillon.QueuePause)) },
		func(b []byte) (any, error) { p, err := DecodeQueuePause(b); return &p, err },
	},
	"AccessKey": {
		new(keyRecord),
		func(v any) []byte {
			k := v.(*keyRecord)
			return EncodeKey(&access.Key{Hash: k.Hash, AccessKey: carillon.AccessKey{Grants: k.Grants, Note: k.Note,
				Creator: k.Creator, Created: k.Created, Expires: k.Expires, LastUsed: k.LastUsed, OverlapEnds: k.OverlapEnds,
				Rotated: k.Rotated, Rotator: k.Rotator}, Before: k.Before})
		},
		func(b []byte) (any, error) {
			k, err := DecodeKey(b, "")
			return &keyRecord{k.Hash, k.Grants, k.Note, k.Creator, k.Created, k.Expires, k.LastUsed, k.Before, k.OverlapEnds,
				k.Rotated, k.Rotator}, err
		},
	},
	"AuditEntry": {
		new(store.AuditEntry),
		func(v any) []byte { return AppendAudit(nil, v.(*store.AuditEntry)) },
		func(b []byte) (any, error) { e, err := DecodeAudit(b); return &e, err },
	},
	"AuditChain": {
		new(store.AuditChain),
		func(v any) []byte { return AppendAuditChain(nil, v.(*store.AuditChain)) },
		func(b []byte) (any, error) { a, err := DecodeAuditChain(b); return &a, err },
	},
	"Calendar": {
		new(carillon.Calendar),
		func(v any) []byte { return EncodeCalendar(v.(*carillon.Calendar)) },
		func(b []byte) (any, error) { c, err := DecodeCalendar(b, carillon.Key{}); return &c, err },
	},
	"Backfill": {
		new(store.Backfill),
		func(v any) []byte { return AppendBackfill(nil, v.(*store.Backfill)) },
		func(b []byte) (any, error) { f, err := DecodeBackfill(b); return &f, err },
	},
	"EventList": {
		new(store.EventList),
		func(v any) []byte { return AppendEvents(nil, v.(*store.EventList)) },
		func(b []byte) (any, error) { e, err := DecodeEvents(b); return &e, err },
	},
	"Told": {
		new(store.Told),
		func(v any) []byte { return AppendTold(nil, v.(*store.Told)) },
		func(b []byte) (any, error) { f, err := DecodeTold(b); return &f, err },
	},
	"Texts": {
		new(texts),
		func(v any) []byte {
			c := coder{writing: true}
			sealedTexts(&c, v.(*texts))
			return c.b
		},
		func(b []byte) (any, error) {
			var t texts
			c := coder{b: b}
			sealedTexts(&c, &t)
			return &t, c.err
		},
	},
	"Watched": {
		new(store.Watched),
		func(v any) []byte { return AppendWatched(nil, v.(*store.Watched)) },
		func(b []byte) (any, error) { w, err := DecodeWatched(b); return &w, err },
	},
}

// notCarried are the fields that are not in the bytes, because the record's key holds them or they are made
// up by a read.
var notCarried = map[string]bool{"Job.Namespace": true, "Job.Name": true, "Job.Status": true,
	"RunRecord.Cursor": true, "Namespace.Name": true, "Namespace.Used": true, "Calendar.Namespace": true,
	"Calendar.Name": true}

// notRead are the fields that stand, encrypted, in the place of others.
var notRead = map[protoreflect.FullName]bool{"carillon.store.Spec.sealed": true,
	"carillon.store.Namespace.sealed": true, "carillon.store.RunState.sealed": true}

// Every field of every struct is in record.proto under its own name, and what one side writes the other
// reads. A field that is added to a struct and not to the codec, or not to record.proto, fails here.
func TestCodecAgreesWithRecordProto(t *testing.T) {
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{}}
	files, err := compiler.Compile(context.Background(), "record.proto")
	if err != nil {
		t.Fatal(err)
	}
	for name, codec := range codecs {
		desc := files[0].Messages().ByName(protoreflect.Name(name))
		kinds := reflect.TypeFor[carillon.Target]().NumField()
		for kind := range kinds {
			t.Run(fmt.Sprintf("%s/%d", name, kind), func(t *testing.T) {
				f := filler{target: kind}
				reflect.ValueOf(codec.value).Elem().SetZero()
				f.fill(reflect.ValueOf(codec.value).Elem())
				want := plain(reflect.ValueOf(codec.value).Elem())

				msg := dynamicpb.NewMessage(desc)
				if err := proto.Unmarshal(codec.encode(codec.value), msg); err != nil {
					t.Fatal(err)
				}
				if got := plainProto(t, msg); !reflect.DeepEqual(got, want) {
					t.Errorf("protobuf reads\n%v\nof\n%v", got, want)
				}
				theirs, err := proto.Marshal(msg)
				if err != nil {
					t.Fatal(err)
				}
				got, err := codec.decode(theirs)
				if err != nil || !reflect.DeepEqual(got, codec.value) {
					t.Errorf("decoded\n%+v, %v\nwant\n%+v", got, err, codec.value)
				}
				ours, err := codec.decode(codec.encode(codec.value))
				if err != nil || !reflect.DeepEqual(ours, codec.value) {
					t.Errorf("round trip\n%+v, %v\nwant\n%+v", ours, err, codec.value)
				}
			})
		}
	}
}

// keyRecord is an access.Key as the record has it: without its id.
type keyRecord struct {
	Hash                       access.Hash
	Grants                     []carillon.AccessGrant
	Note, Creator              string
	Created, Expires, LastUsed time.Time
	Before                     access.Hash
	OverlapEnds, Rotated       time.Time
	Rotator                    string
}

// filler gives every field a value of its own, none of them zero.
type filler struct {
	n      int
	target int // which of the targets is set
}

func (f *filler) fill(v reflect.Value) {
	f.n++
	switch x := v.Addr().Interface().(type) {
	case *map[string]int:
		*x = map[string]int{fmt.Sprint("k", f.n): -f.n, "": f.n}
		return
	case *map[string]carillon.Rate:
		var r carillon.Rate
		f.fill(reflect.ValueOf(&r).Elem())
		*x = map[string]carillon.Rate{fmt.Sprint("k", f.n): r, "": r}
		return
	case *carillon.When:
		*x = carillon.WhenText(fmt.Sprint("when-", f.n))
		return
	case *carillon.Data:
		*x = carillon.Bytes(fmt.Append(nil, "data-", f.n), fmt.Sprint("type-", f.n))
		x.Ref = &carillon.PayloadRef{Day: int32(f.n), SHA256: sha256.Sum256(x.Bytes), Size: int64(f.n) << 20}
		return
	case *time.Time:
		*x = time.Unix(int64(f.n), int64(f.n)).UTC()
		return
	case *carillon.Target:
		f.fill(v.Field(f.target))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !notCarried[v.Type().Name()+"."+v.Type().Field(i).Name] {
				f.fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		f.fillItems(v)
	case reflect.Array:
		f.fillItems(v)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{fmt.Sprint("k", f.n): fmt.Sprint("v", f.n), "": "empty"}))
	default:
		f.fillScalar(v)
	}
}

func (f *filler) fillItems(v reflect.Value) {
	for i := range v.Len() {
		f.fill(v.Index(i))
	}
}

func (f *filler) fillScalar(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text-\xff-", f.n)) // not UTF-8
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(math.MinInt64 + int64(f.n))
	case reflect.Int32:
		v.SetInt(math.MinInt32 + int64(f.n))
	case reflect.Uint8:
		v.SetUint(uint64(1 + f.n%255))
	case reflect.Uint16:
		v.SetUint(math.MaxUint16 - uint64(f.n))
	case reflect.Uint32:
		v.SetUint(math.MaxUint32 - uint64(f.n))
	case reflect.Uint64:
		v.SetUint(math.MaxUint64 - uint64(f.n))
	case reflect.Float64:
		v.SetFloat(float64(f.n) + 0.5)
	default:
		panic("a kind of field that the codec does not know: " + v.Type().String())
	}
}

// plain is a struct as nested maps with the field names of record.proto.
func plain(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case carillon.When:
		return x.String()
	case time.Time:
		return fmt.Sprint(x.UnixNano())
	case access.Hash:
		return string(x[:])
	case carillon.UID:
		return string(x[:])
	case []byte:
		return string(x)
	case map[string]string:
		return x
	case map[string]int:
		m := map[string]string{}
		for k, n := range x {
			m[k] = fmt.Sprint(n)
		}
		return m
	case map[string]carillon.Rate:
		m := map[string]any{}
		for k, r := range x {
			m[k] = plainStruct(reflect.ValueOf(r))
		}
		return m
	case []string:
		return x
	case []carillon.EventType:
		list := []string{}
		for _, s := range x {
			list = append(list, string(s))
		}
		return list
	case []uint64:
		list := []string{}
		for _, n := range x {
			list = append(list, fmt.Sprint(n))
		}
		return list
	}
	switch v.Kind() {
	case reflect.Struct:
		return plainStruct(v)
	case reflect.Pointer:
		return plain(v.Elem())
	case reflect.Slice:
		list := []any{}
		for i := range v.Len() {
			list = append(list, plain(v.Index(i)))
		}
		return list
	}
	return fmt.Sprint(v.Interface())
}

func plainStruct(v reflect.Value) map[string]any {
	m := map[string]any{}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		switch value := v.Field(i); {
		case notCarried[v.Type().Name()+"."+field.Name], value.Kind() == reflect.Pointer && value.IsNil():
		case field.Type == reflect.TypeFor[carillon.Data]():
			data := value.Interface().(carillon.Data)
			m["data"], m["content_type"] = string(data.Bytes), data.ContentType
			if r := data.Ref; r != nil {
				m["payload"] = map[string]any{"day": fmt.Sprint(r.Day), "sha256": string(r.SHA256[:]),
					"size": fmt.Sprint(r.Size)}
			}
		case field.Type == reflect.TypeFor[store.Term](), field.Type == reflect.TypeFor[carillon.CalendarRules]():
			maps.Copy(m, plainStruct(value))
		case field.Type == reflect.TypeFor[carillon.Misfire]():
			m["misfire"], m["catch_up_limit"] = digits(value.Field(0)), digits(value.Field(1))
			m["catch_up_window"] = digits(value.Field(2))
		case value.CanInt(), value.CanUint():
			m[snake(field.Name)] = digits(value)
		default:
			m[snake(field.Name)] = plain(value)
		}
	}
	return m
}

// digits is a number whatever its type says about printing it.
func digits(v reflect.Value) string {
	if v.CanInt() {
		return fmt.Sprint(v.Int())
	}
	return fmt.Sprint(v.Uint())
}

// snake is a Go name as record.proto writes it: ConcurrencyKey → concurrency_key, TimeZone → time_zone,
// SHA256 → sha256.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, c := range runes {
		if i > 0 && unicode.IsUpper(c) && (unicode.IsLower(runes[i-1]) ||
			i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// plainProto is a message as nested maps. Every field must be set (of a oneof, one) and none unknown.
func plainProto(t *testing.T, msg protoreflect.Message) map[string]any {
	if len(msg.GetUnknown()) > 0 {
		t.Errorf("%s does not know %x", msg.Descriptor().FullName(), msg.GetUnknown())
	}
	m := map[string]any{}
	fields := msg.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !msg.Has(field) {
			if field.ContainingOneof() == nil && !notRead[field.FullName()] {
				t.Errorf("%s is not written", field.FullName())
			}
			continue
		}
		m[string(field.Name())] = plainField(t, field, msg.Get(field))
	}
	return m
}

func plainField(t *testing.T, field protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case field.IsMap() && field.MapValue().Message() != nil:
		m := map[string]any{}
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			m[k.String()] = plainProto(t, v.Message())
			return true
		})
		return m
	case field.IsMap():
		m := map[string]string{}
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			m[k.String()] = v.String()
			return true
		})
		return m
	case field.IsList() && field.Message() != nil:
		list := []any{}
		for i := range v.List().Len() {
			list = append(list, plainProto(t, v.List().Get(i).Message()))
		}
		return list
	case field.IsList():
		list := []string{}
		for i := range v.List().Len() {
			list = append(list, v.List().Get(i).String())
		}
		return list
	case field.Message() != nil:
		return plainProto(t, v.Message())
	case field.Kind() == protoreflect.BytesKind:
		return string(v.Bytes())
	case field.Kind() == protoreflect.BoolKind, field.Kind() == protoreflect.DoubleKind:
		return fmt.Sprint(v.Interface())
	}
	return v.String()
}
