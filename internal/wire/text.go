package wire

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
)

// CheckText refuses a message with a text that is not UTF-8, which cannot be sent, by the field that it is
// in. To be asked when a message could not be sent: it looks at every field.
func CheckText(message any) (err error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil
	}
	walked := protorange.Range(m.ProtoReflect(), func(at protopath.Values) error {
		last := at.Index(-1)
		bad := false
		if s, ok := last.Value.Interface().(string); ok {
			bad = !utf8.ValidString(s)
		}
		if last.Step.Kind() == protopath.MapIndexStep {
			key, ok := last.Step.MapIndex().Interface().(string)
			bad = bad || ok && !utf8.ValidString(key)
		}
		if !bad {
			return nil
		}
		err = invalid(fieldAt(at.Path), "it is not UTF-8")
		return protorange.Terminate
	})
	if walked != nil {
		return walked
	}
	return err
}

// fieldAt names the place in a message as the API does: a job that a request is about has its fields beside
// the request's.
func fieldAt(p protopath.Path) string {
	var b strings.Builder
	for _, step := range p[1:] {
		switch step.Kind() {
		case protopath.FieldAccessStep:
			b.WriteString("." + string(step.FieldDescriptor().Name()))
		case protopath.ListIndexStep:
			b.WriteString(step.String())
		}
	}
	return strings.TrimPrefix(strings.TrimPrefix(b.String(), "."), "job.")
}
