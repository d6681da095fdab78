package outbox

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/wire"
)

// encode returns a job as REST and the functions of the outbox take it. Data is in base64, since a column of
// the type jsonb would change how JSON is spelt.
func encode(job *carillon.Job) (json.RawMessage, error) {
	if err := job.CheckForm(); err != nil {
		return nil, err
	}
	return json.Marshal(object(wire.JobToProto(job).ProtoReflect()))
}

// object returns the fields that are set, by their names.
func object(m protoreflect.Message) map[string]any {
	all := map[string]any{}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := string(fd.Name())
		switch {
		case name == "status": // set by the server
		case fd.IsMap():
			entries := map[string]any{}
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				entries[k.String()] = single(fd.MapValue(), v)
				return true
			})
			all[name] = entries
		case fd.IsList():
			items := make([]any, v.List().Len())
			for i := range items {
				items[i] = single(fd, v.List().Get(i))
			}
			all[name] = items
		case fd.Kind() == protoreflect.BytesKind:
			all[name+"_base64"] = single(fd, v)
		default:
			all[name] = single(fd, v)
		}
		return true
	})
	return all
}

// single returns a value that is no map and no list.
func single(fd protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return object(v.Message())
	case protoreflect.BytesKind:
		return base64.StdEncoding.EncodeToString(v.Bytes())
	case protoreflect.EnumKind: // OVERLAP_SERIAL is "serial"
		values := fd.Enum().Values()
		prefix := strings.TrimSuffix(string(values.ByNumber(0).Name()), "UNSPECIFIED")
		if value := values.ByNumber(v.Enum()); value != nil {
			return strings.ToLower(strings.TrimPrefix(string(value.Name()), prefix))
		}
		return int32(v.Enum()) // the functions refuse it
	}
	return v.Interface()
}
