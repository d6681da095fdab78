package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"mime"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillonhq/carillon"
)

// payload keeps the next value byte for byte: the spelling of its numbers and the white space inside are its
// author's.
func (d *decoder) payload(m protoreflect.Message, fd protoreflect.FieldDescriptor) error {
	var raw json.RawMessage
	if err := d.dec.Decode(&raw); err != nil {
		return err
	}
	m.Set(fd, protoreflect.ValueOfBytes(raw))
	return nil
}

// bytes reads a string into a field of bytes: the text itself, or base64.
func (d *decoder) bytes(path string, m protoreflect.Message, mem member) error {
	t, err := d.word(path)
	if err != nil {
		return err
	}
	s, ok := t.(string)
	if !ok {
		return wrongType(path, "a string")
	}
	raw := []byte(s)
	if mem.form == base64d {
		if raw, err = fromBase64(path, s); err != nil {
			return err
		}
	}
	m.Set(mem.field, protoreflect.ValueOfBytes(raw))
	return nil
}

// fromBase64 reads base64 in the standard or the URL alphabet, padded or not.
func fromBase64(path, s string) ([]byte, error) {
	standard := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(s), "=")
	raw, err := base64.RawStdEncoding.DecodeString(standard)
	if err != nil {
		return nil, invalid(path, "not base64")
	}
	return raw, nil
}

// defaultContentType says that a payload given as JSON is JSON, unless the caller said something else.
func defaultContentType(m protoreflect.Message, seen seenFields) {
	if seen["data"] == "data" && contentType(m) == "" {
		m.Set(contentTypeField(m), protoreflect.ValueOfString(carillon.ContentTypeJSON))
	}
}

// contentType is the type of a message's payload.
func contentType(m protoreflect.Message) string { return m.Get(contentTypeField(m)).String() }

func contentTypeField(m protoreflect.Message) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName("content_type")
}

// isJSON reports whether bytes can be shown as they are: their type says JSON, and they are.
func isJSON(contentType string, raw []byte) bool {
	if contentType != carillon.ContentTypeJSON {
		media, _, err := mime.ParseMediaType(contentType)
		if err != nil || media != carillon.ContentTypeJSON && !strings.HasSuffix(media, "+json") {
			return false
		}
	}
	return json.Valid(raw)
}
