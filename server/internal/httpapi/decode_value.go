package httpapi

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// timestampName is the one message that is written as a single value.
var timestampName = (*timestamppb.Timestamp)(nil).ProtoReflect().Descriptor().FullName()

// scalar is a JSON value as a value of the field, or of one of its elements.
func scalar(path string, raw []byte, fd protoreflect.FieldDescriptor) (protoreflect.Value, error) {
	switch c := raw[0]; {
	case c == '"':
		s, err := stringOf(path, raw)
		if err != nil {
			return protoreflect.Value{}, err
		}
		return quoted(path, fd, s)
	case (c == 't' || c == 'f') && fd.Kind() == protoreflect.BoolKind:
		return protoreflect.ValueOfBool(c == 't'), nil
	case c == '-' || '0' <= c && c <= '9':
		return number(path, fd, plainDigits(string(raw)))
	}
	return protoreflect.Value{}, wrongType(path, wanted(fd))
}

// wanted is what a field takes, for people.
func wanted(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.StringKind, protoreflect.BytesKind:
		return "a string"
	case protoreflect.EnumKind:
		return "one of " + wordsFor(fd.Enum()).list
	case protoreflect.MessageKind:
		return "a time in RFC 3339, such as 2026-01-02T15:04:05Z"
	}
	return "a number"
}

// quoted is a JSON string, or a query parameter, as a value of the field.
func quoted(path string, fd protoreflect.FieldDescriptor, s string) (protoreflect.Value, error) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(s), nil
	case protoreflect.BytesKind:
		raw, err := fromBase64(path, s)
		return protoreflect.ValueOfBytes(raw), err
	case protoreflect.EnumKind:
		n, ok := wordsFor(fd.Enum()).value[s]
		if !ok {
			return protoreflect.Value{}, invalid(path, "%q is not %s", clip(s), wanted(fd))
		}
		return protoreflect.ValueOfEnum(n), nil
	case protoreflect.MessageKind:
		at, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return protoreflect.Value{}, invalid(path, "%q is not %s", clip(s), wanted(fd))
		}
		return protoreflect.ValueOfMessage(timestamppb.New(at).ProtoReflect()), nil
	case protoreflect.BoolKind, protoreflect.DoubleKind:
		return protoreflect.Value{}, wrongType(path, wanted(fd))
	}
	return number(path, fd, s)
}

// number is the text of a number as a value of the field. Integers may come as strings, because JavaScript
// cannot hold large ones.
func number(path string, fd protoreflect.FieldDescriptor, s string) (protoreflect.Value, error) {
	switch fd.Kind() {
	case protoreflect.Int32Kind:
		n, err := strconv.ParseInt(s, 10, 32)
		return protoreflect.ValueOfInt32(int32(n)), numberError(path, s, err, math.MinInt32, math.MaxInt32)
	case protoreflect.Uint32Kind:
		n, err := strconv.ParseUint(s, 10, 32)
		return protoreflect.ValueOfUint32(uint32(n)), numberError(path, s, err, 0, math.MaxUint32)
	case protoreflect.Int64Kind:
		n, err := strconv.ParseInt(s, 10, 64)
		return protoreflect.ValueOfInt64(n), numberError(path, s, err, math.MinInt64, math.MaxInt64)
	case protoreflect.Uint64Kind:
		n, err := strconv.ParseUint(s, 10, 64)
		return protoreflect.ValueOfUint64(n), numberError(path, s, err, 0, uint64(math.MaxUint64))
	case protoreflect.DoubleKind:
		n, err := strconv.ParseFloat(s, 64)
		return protoreflect.ValueOfFloat64(n), numberError(path, s, err, -math.MaxFloat64, math.MaxFloat64)
	}
	return protoreflect.Value{}, wrongType(path, wanted(fd))
}

// plainDigits writes a whole number in digits alone: in JSON 3.0 and 3e2 are whole numbers as well. Anything
// else stays as it is.
func plainDigits(s string) string {
	if !strings.ContainsAny(s, ".eE") {
		return s
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil && n == math.Trunc(n) && math.Abs(n) <= 1<<53 {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return s
}

// numberError is why s is not a number between low and high.
func numberError(path, s string, err error, low, high any) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strconv.ErrRange), strings.HasPrefix(s, "-"):
		return invalid(path, "%s is out of range %v to %v", clip(s), low, high)
	}
	return invalid(path, "%q is not a whole number", clip(s))
}

// clip shortens what a caller sent, for an error message.
func clip(s string) string { return clipTo(s, 64) }

// clipTo shortens a text to so many bytes, between two characters.
func clipTo(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
