package wire

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillonhq/carillon"
)

// Known refuses a message with a field that this version does not have: who has sent it expects something of it. The error
// names the field by where it is and by its number, which is all that there is of it here.
func Known(m proto.Message) error {
	stray := strayIn(m.ProtoReflect())
	if stray == nil {
		return nil
	}
	return carillon.Errorf(carillon.InvalidArgument, fmt.Sprint(stray.at, stray.number),
		"unknown field: %s has no field %d in this version of the node", stray.in, stray.number)
}

// A stray is a field that nobody knows.
type stray struct {
	at     string // the path to the message that it is in, ending in a dot if it is not empty
	in     protoreflect.FullName
	number protowire.Number
}

// strayIn is the first stray in a message, nil if there is none. Paths are made on the way back only: there is hardly ever one.
func strayIn(m protoreflect.Message) *stray {
	if raw := m.GetUnknown(); len(raw) > 0 {
		number, _, _ := protowire.ConsumeTag(raw)
		return &stray{in: m.Descriptor().FullName(), number: number}
	}
	for _, f := range messageFields(m.Descriptor()) {
		if !m.Has(f) {
			continue
		}
		if s := strayOf(m.Get(f), f); s != nil {
			s.at = string(f.Name()) + s.at
			return s
		}
	}
	return nil
}

// strayOf is strayIn of what a field holds: a message, or a list of them.
func strayOf(v protoreflect.Value, f protoreflect.FieldDescriptor) *stray {
	if !f.IsList() {
		s := strayIn(v.Message())
		if s != nil {
			s.at = "." + s.at
		}
		return s
	}
	for i, list := 0, v.List(); i < list.Len(); i++ {
		if s := strayIn(list.Get(i).Message()); s != nil {
			s.at = fmt.Sprintf("[%d].%s", i, s.at)
			return s
		}
	}
	return nil
}

// holders has the fields of each kind of message that hold messages themselves: few do.
var holders sync.Map // protoreflect.MessageDescriptor → []protoreflect.FieldDescriptor

func messageFields(d protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	if held, ok := holders.Load(d); ok {
		return held.([]protoreflect.FieldDescriptor)
	}
	var held []protoreflect.FieldDescriptor
	for i, all := 0, d.Fields(); i < all.Len(); i++ {
		if f := all.Get(i); f.Message() != nil && !f.IsMap() { // no map of the contract holds messages; a test sees to it
			held = append(held, f)
		}
	}
	holders.Store(d, held)
	return held
}
