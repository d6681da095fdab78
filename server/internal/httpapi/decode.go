package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Unmarshal reads a JSON object into m, which must be empty. Every name must be known and be given once; null
// means "not given". It returns the fields that were given.
func Unmarshal(body []byte, m proto.Message) (Given, error) {
	if err := checkSyntax(body); err != nil {
		return nil, err
	}
	return object("", body, m.ProtoReflect())
}

// Given are the fields that an object gives, in its order.
type Given []given

// given is a field, and what the object in it gives.
type given struct {
	field  string
	null   bool
	within Given
}

// checkSyntax refuses what is not one JSON value in UTF-8, saying where.
func checkSyntax(body []byte) error {
	if !utf8.Valid(body) {
		return invalid("", "the body is not UTF-8")
	}
	var raw json.RawMessage
	err := json.Unmarshal(body, &raw)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line, column := position(body, syntax.Offset)
		return invalid("", "the body is not JSON: %s, at line %d, column %d", syntax, line, column)
	}
	return err
}

// position is the line and column, from 1, of the byte before an offset.
func position(body []byte, offset int64) (line, column int) {
	before := body[:min(max(offset-1, 0), int64(len(body)))]
	line = 1 + bytes.Count(before, []byte("\n"))
	return line, len(before) - bytes.LastIndexByte(before, '\n')
}

// object reads an object into m; path is the name under which m is known to the caller. null sets nothing,
// except in a payload.
func object(path string, raw []byte, m protoreflect.Message) (all Given, err error) {
	members, err := pairs(path, raw)
	if err != nil {
		return nil, err
	}
	known := membersFor(m.Descriptor())
	seen := seenFields{}
	for _, p := range members {
		at := join(path, p.name)
		mem, ok := known[p.name]
		if !ok {
			return nil, invalid(at, "unknown field")
		}
		g := given{field: string(mem.field.Name()), null: mem.form != payload && string(p.value) == "null"}
		if other, twice := seen[g.field]; twice {
			return nil, invalid(join(path, g.field), "given twice, as %s and as %s", other, p.name)
		}
		if !g.null {
			seen[g.field] = p.name
			if g.within, err = setMember(at, p.value, m, mem); err != nil {
				return nil, err
			}
		}
		all = append(all, g)
	}
	defaultContentType(m, seen)
	return slices.DeleteFunc(all, func(g given) bool {
		return g.null && (seen[g.field] != "" || othersForm(m, g.field))
	}), nil
}

// othersForm reports whether what can have only one form has got another than the field.
func othersForm(m protoreflect.Message, field string) bool {
	od := m.Descriptor().Fields().ByName(protoreflect.Name(field)).ContainingOneof()
	return od != nil && m.WhichOneof(od) != nil
}

// seenFields are the fields that an object has given a value, and the name it used.
type seenFields map[string]string

// oneOf refuses a second form of what can have only one.
func oneOf(path string, m protoreflect.Message, fd protoreflect.FieldDescriptor) error {
	od := fd.ContainingOneof()
	if od == nil {
		return nil
	}
	if other := m.WhichOneof(od); other != nil {
		parent := path[:max(0, len(path)-len(fd.Name())-1)]
		return invalid(parent, "both %s and %s are given; it can be one only", other.Name(), fd.Name())
	}
	return nil
}

// setMember reads one member's value.
func setMember(path string, raw []byte, m protoreflect.Message, mem member) (within Given, err error) {
	fd := mem.field
	if err := oneOf(path, m, fd); err != nil {
		return nil, err
	}
	switch {
	case mem.form == payload: // byte for byte: the spelling of its numbers and its white space are its author's
		m.Set(fd, protoreflect.ValueOfBytes(bytes.Clone(raw))) // not the whole body for the sake of a part
		return nil, nil
	case fd.IsMap():
		return nil, mapping(path, raw, fd.MapValue(), m.Mutable(fd).Map())
	case fd.IsList():
		return nil, list(path, raw, fd, m.Mutable(fd).List())
	case isObject(fd):
		return object(path, raw, m.Mutable(fd).Message())
	}
	read := scalar
	if mem.form == text {
		read = textBytes
	}
	v, err := read(path, raw, fd)
	if err == nil {
		m.Set(fd, v)
	}
	return nil, err
}

// isObject reports whether a field, or each of its elements, is written as an object.
func isObject(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && fd.Message().FullName() != timestampName
}

// list reads an array.
func list(path string, raw []byte, fd protoreflect.FieldDescriptor, into protoreflect.List) error {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return wrongType(path, "a list")
	}
	for i, item := range items {
		at := path + "[" + strconv.Itoa(i) + "]"
		if isObject(fd) {
			if _, err := object(at, item, into.AppendMutable().Message()); err != nil {
				return err
			}
			continue
		}
		v, err := scalar(at, item, fd)
		if err != nil {
			return err
		}
		into.Append(v)
	}
	return nil
}

// mapping reads an object whose values are strings or numbers: there are no other maps in the API.
func mapping(path string, raw []byte, fd protoreflect.FieldDescriptor, into protoreflect.Map) error {
	entries, err := pairs(path, raw)
	if err != nil {
		return err
	}
	for _, p := range entries {
		k := protoreflect.ValueOfString(p.name).MapKey()
		if into.Has(k) {
			return invalid(join(path, p.name), "given twice")
		}
		if isObject(fd) {
			if _, err := object(join(path, p.name), p.value, into.Mutable(k).Message()); err != nil {
				return err
			}
			continue
		}
		value, err := scalar(join(path, p.name), p.value, fd)
		if err != nil {
			return err
		}
		into.Set(k, value)
	}
	return nil
}

// join is a field's path within another's.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func wrongType(path, want string) error {
	if path == "" {
		return invalid("", "the body must be %s", want)
	}
	return invalid(path, "must be %s", want)
}
