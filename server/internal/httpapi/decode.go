package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Unmarshal reads a JSON object into m, which must be empty. Every name must be known and be given once; null
// means "not given". It returns the names of the fields that were given.
func Unmarshal(body []byte, m proto.Message) (given []string, err error) {
	if err := checkSyntax(body); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	d := decoder{dec: dec, in: body}
	return d.object("", m.ProtoReflect())
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

// decoder walks JSON that is known to be well formed.
type decoder struct {
	dec *json.Decoder
	in  []byte // what dec reads
}

// next is the next token. It cannot fail: the syntax was checked.
func (d *decoder) next() json.Token {
	t, err := d.dec.Token()
	if err != nil {
		panic(err)
	}
	return t
}

// object reads an object into m; path is the name under which m is known to the caller.
func (d *decoder) object(path string, m protoreflect.Message) (given []string, err error) {
	if t := d.next(); t != json.Delim('{') {
		return nil, wrongType(path, "an object")
	}
	known := membersFor(m.Descriptor())
	seen := seenFields{}
	for d.dec.More() {
		name, err := d.name(path)
		if err != nil {
			return nil, err
		}
		at := join(path, name)
		mem, ok := known[name]
		if !ok {
			return nil, invalid(at, "unknown field")
		}
		field := string(mem.field.Name())
		if other, twice := seen[field]; twice {
			return nil, invalid(join(path, field), "given twice, as %s and as %s", other, name)
		}
		set, err := d.member(at, m, mem)
		if err != nil {
			return nil, err
		}
		if set {
			seen[field] = name
		}
		given = append(given, field)
	}
	d.next() // '}'
	defaultContentType(m, seen)
	return given, nil
}

// seenFields are the fields that an object has given a value, and the name it used.
type seenFields map[string]string

// member reads one member's value; null sets nothing, except in a payload.
func (d *decoder) member(path string, m protoreflect.Message, mem member) (set bool, err error) {
	if mem.form == payload {
		return true, d.payload(m, mem.field)
	}
	var raw json.RawMessage
	if err := d.dec.Decode(&raw); err != nil {
		return false, err
	}
	if string(raw) == "null" {
		return false, nil
	}
	if err := oneOf(path, m, mem.field); err != nil {
		return false, err
	}
	inner := decoder{dec: json.NewDecoder(bytes.NewReader(raw)), in: raw}
	inner.dec.UseNumber()
	return true, inner.value(path, m, mem)
}

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

func (d *decoder) value(path string, m protoreflect.Message, mem member) error {
	fd := mem.field
	switch {
	case mem.form != plain:
		return d.bytes(path, m, mem)
	case fd.IsMap():
		return d.mapping(path, fd.MapValue(), m.Mutable(fd).Map())
	case fd.IsList():
		return d.list(path, fd, m.Mutable(fd).List())
	case isObject(fd):
		_, err := d.object(path, m.Mutable(fd).Message())
		return err
	}
	v, err := d.scalar(path, fd)
	if err == nil {
		m.Set(fd, v)
	}
	return err
}

// isObject reports whether a field, or each of its elements, is written as an object.
func isObject(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && fd.Message().FullName() != timestampName
}

// list reads an array.
func (d *decoder) list(path string, fd protoreflect.FieldDescriptor, list protoreflect.List) error {
	if t := d.next(); t != json.Delim('[') {
		return wrongType(path, "a list")
	}
	for i := 0; d.dec.More(); i++ {
		at := path + "[" + strconv.Itoa(i) + "]"
		if isObject(fd) {
			if _, err := d.object(at, list.AppendMutable().Message()); err != nil {
				return err
			}
			continue
		}
		v, err := d.scalar(at, fd)
		if err != nil {
			return err
		}
		list.Append(v)
	}
	return nil
}

// mapping reads an object whose values are strings or numbers: there are no other maps in the API.
func (d *decoder) mapping(path string, fd protoreflect.FieldDescriptor, mm protoreflect.Map) error {
	if t := d.next(); t != json.Delim('{') {
		return wrongType(path, "an object")
	}
	for d.dec.More() {
		name, err := d.name(path)
		if err != nil {
			return err
		}
		value, err := d.scalar(join(path, name), fd)
		if err != nil {
			return err
		}
		k := protoreflect.ValueOfString(name).MapKey()
		if mm.Has(k) {
			return invalid(join(path, name), "given twice")
		}
		mm.Set(k, value)
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
