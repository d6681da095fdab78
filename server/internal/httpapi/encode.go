package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Marshal returns a message of the API in the JSON of the REST face, its fields in the order of the proto.
// What is empty is left out, except from what the server says of itself: a response, a status, counters, a
// backfill.
func Marshal(m proto.Message) []byte {
	e := encoder{}
	e.object(m.ProtoReflect())
	e.WriteByte('\n')
	return e.Bytes()
}

type encoder struct {
	bytes.Buffer
}

// whole reports whether a message is written with what is empty in it.
func whole(md protoreflect.MessageDescriptor) bool {
	name := string(md.Name())
	return strings.HasSuffix(name, "Response") || slices.Contains(wholeMessages, name)
}

// wholeMessages are what the server says of itself, besides its responses.
var wholeMessages = []string{"JobStatus", "Counters", "Backfill", "Namespace", "Calendar", "Progress",
	"Cluster", "Node", "PartitionOwner", "Queue", "Worker"}

func (e *encoder) object(m protoreflect.Message) {
	fields, empty := m.Descriptor().Fields(), whole(m.Descriptor())
	e.WriteByte('{')
	start := e.Len()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) && (!empty || fd.HasPresence() || fd.Enum() != nil) {
			continue
		}
		if e.Len() > start {
			e.WriteByte(',')
		}
		e.field(m, fd)
	}
	e.WriteByte('}')
}

func (e *encoder) field(m protoreflect.Message, fd protoreflect.FieldDescriptor) {
	if hasBase64(fd) {
		e.raw(m, fd)
		return
	}
	e.name(string(fd.Name()))
	v := m.Get(fd)
	switch {
	case fd.IsMap():
		e.mapping(fd.MapValue(), v.Map())
	case fd.IsList():
		e.list(fd, v.List())
	default:
		e.value(fd, v)
	}
}

func (e *encoder) name(name string) {
	e.WriteByte('"')
	e.WriteString(name)
	e.WriteString(`":`)
}

// raw writes bytes as what they are if they can be shown, else in base64 under the longer name.
func (e *encoder) raw(m protoreflect.Message, fd protoreflect.FieldDescriptor) {
	raw, name, form := m.Get(fd).Bytes(), string(fd.Name()), rawForm(fd)
	switch {
	case form == payload && isJSON(contentType(m), raw):
		e.name(name)
		e.Write(raw)
	case form == text && utf8.Valid(raw):
		e.name(name)
		e.string(string(raw))
	default:
		e.name(name + base64Suffix)
		e.string(base64.StdEncoding.EncodeToString(raw))
	}
}

func (e *encoder) list(fd protoreflect.FieldDescriptor, list protoreflect.List) {
	e.WriteByte('[')
	for i := range list.Len() {
		if i > 0 {
			e.WriteByte(',')
		}
		e.value(fd, list.Get(i))
	}
	e.WriteByte(']')
}

// mapping writes a map, sorted.
func (e *encoder) mapping(value protoreflect.FieldDescriptor, mm protoreflect.Map) {
	var keys []string
	for k := range mm.Range {
		keys = append(keys, k.String())
	}
	slices.Sort(keys)
	e.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			e.WriteByte(',')
		}
		e.string(k)
		e.WriteByte(':')
		e.value(value, mm.Get(protoreflect.ValueOfString(k).MapKey()))
	}
	e.WriteByte('}')
}

func (e *encoder) value(fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		e.Write(strconv.AppendBool(e.AvailableBuffer(), v.Bool()))
	case protoreflect.Int32Kind:
		e.Write(strconv.AppendInt(e.AvailableBuffer(), v.Int(), 10))
	case protoreflect.Uint32Kind:
		e.Write(strconv.AppendUint(e.AvailableBuffer(), v.Uint(), 10))
	case protoreflect.Uint64Kind: // a string: JavaScript cannot hold large ones
		e.string(strconv.FormatUint(v.Uint(), 10))
	case protoreflect.Int64Kind:
		e.string(strconv.FormatInt(v.Int(), 10))
	case protoreflect.DoubleKind:
		e.Write(strconv.AppendFloat(e.AvailableBuffer(), v.Float(), 'g', -1, 64))
	case protoreflect.EnumKind:
		e.string(wordsFor(fd.Enum()).name[v.Enum()])
	case protoreflect.BytesKind:
		e.string(base64.StdEncoding.EncodeToString(v.Bytes()))
	case protoreflect.MessageKind:
		e.message(v.Message())
	default:
		e.string(v.String())
	}
}

func (e *encoder) message(m protoreflect.Message) {
	if m.Descriptor().FullName() != timestampName {
		e.object(m)
		return
	}
	fields := m.Descriptor().Fields()
	t := time.Unix(m.Get(fields.ByName("seconds")).Int(), m.Get(fields.ByName("nanos")).Int())
	e.string(t.UTC().Format(time.RFC3339Nano))
}

// string writes s quoted. Characters that matter in HTML only are left as they are: nothing here is served as
// HTML.
func (e *encoder) string(s string) {
	enc := json.NewEncoder(&e.Buffer)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // strings can always be encoded
	}
	e.Truncate(e.Len() - 1)
}
