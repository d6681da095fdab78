package peer

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/cluster"
)

// understand refuses a request in which, at any depth, a field is set that this version does not know: what it asks for would be left out
// in silence. In answers such fields are ignored.
func understand(m proto.Message) error {
	if name, n := unknownIn(m.ProtoReflect()); n != 0 {
		return older(fmt.Sprintf("field %d of %s", n, name))
	}
	return nil
}

// older is the error of what this version does not know.
func older(what string) error {
	return carillon.Errorf(carillon.Unavailable, "", "%w: it does not know %s; end the upgrade, and try again", cluster.ErrOlder, what)
}

// unknownIn finds the first field that is not known: in which message, and its number; 0 if all are.
func unknownIn(m protoreflect.Message) (in protoreflect.FullName, number protowire.Number) {
	if raw := m.GetUnknown(); len(raw) > 0 {
		n, _, _ := protowire.ConsumeTag(raw)
		return m.Descriptor().FullName(), max(n, 1) // what cannot be read is not known either
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					in, number = unknownIn(v.Message())
					return number == 0
				})
			}
		case f.Message() == nil:
		case f.IsList():
			for i := 0; i < v.List().Len() && number == 0; i++ {
				in, number = unknownIn(v.List().Get(i).Message())
			}
		default:
			in, number = unknownIn(v.Message())
		}
		return number == 0
	})
	return in, number
}
