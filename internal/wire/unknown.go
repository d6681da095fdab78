package wire

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Known refuses a message with a field that this version does not have: who has sent it expects something of
// it. The error names the field by where it is and by its number, which is all that there is of it here.
func Known(m proto.Message) error {
	stray := StrayIn(m)
	if stray == nil {
		return nil
	}
	return invalid(fmt.Sprint(stray.at, stray.Number),
		"unknown field: %s has no field %d in this version of the node", stray.In, stray.Number)
}

// A Stray is a field that nobody knows.
type Stray struct {
	In     protoreflect.FullName // of the message that it is in
	Number protowire.Number
	at     string // the path to that message, ending in a dot if it is not empty
}

// StrayIn is the first stray in a message, at any depth, nil if there is none.
func StrayIn(m proto.Message) *Stray { return strayIn(m.ProtoReflect()) }

// strayIn makes paths on the way back only: there is hardly ever one.
func strayIn(m protoreflect.Message) *Stray {
	if raw := m.GetUnknown(); len(raw) > 0 {
		number, _, _ := protowire.ConsumeTag(raw)
		return &Stray{In: m.Descriptor().FullName(), Number: number}
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

// strayOf is strayIn of what a field holds: a message, a list or a map of them.
func strayOf(v protoreflect.Value, f protoreflect.FieldDescriptor) (stray *Stray) {
	if f.IsMap() {
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			if stray = strayIn(v.Message()); stray != nil {
				stray.at = fmt.Sprintf(".%s.%s", k, stray.at)
			}
			return stray == nil
		})
		return stray
	}
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
		if f := all.Get(i); f.IsMap() && f.MapValue().Message() != nil || f.Message() != nil && !f.IsMap() {
			held = append(held, f)
		}
	}
	holders.Store(d, held)
	return held
}
